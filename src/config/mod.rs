//! What an operator may set, and how it is read.
//!
//! A delay that is misread shows hours later, at night, as messages that come too early or not at
//! all. So a setting is either understood completely or refused before anything connects: an
//! unknown key, an impossible value and an unreadable file all stop the process, and one refusal
//! names *every* problem with its key, its value, its origin and what to write instead.
//!
//! Four layers, the later wins: the defaults in [`schema`](self), the TOML file, environment
//! variables `XDELAY_<SECTION>__<KEY>`, and `--set section.key=value`. What comes out is a
//! [`Config`]: checked across keys, passwords and lists read from their files. Secrets are wrapped
//! in [`Secret`] and [`Url`], which cannot be printed by accident, and no problem ever quotes one.
//!
//! Reading order: `schema` (what is written), `settings` (what the program gets), `layers`,
//! `read` (types), `unknown` (misspelt keys), `sections`, `credentials`, `exchanges` and `proxy`
//! (values).

mod address;
mod check;
mod credentials;
mod duration;
mod error;
mod exchanges;
#[cfg(any(test, feature = "test-support"))]
pub mod fuzz;
mod kafka;
mod layers;
mod network;
mod origin;
mod proxy;
mod read;
mod schema;
mod secret;
mod sections;
mod settings;
mod size;
mod tls;
mod tree;
mod unknown;
mod url;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;

pub use error::{Error, Problem};
pub use network::Network;
pub use secret::Secret;
pub use settings::{
    Admin, Amqp, Config, Delay, Durability, From, Front, Intake, Kafka, OnInvalid, OnUnroutable,
    Proxy, ProxyTls, Redis, Release, Retry, Store, Topics,
};
pub use tls::{Identity, TlsFiles};
pub use url::Url;

/// The file that is read when none is named and this one exists, relative to the working directory.
pub const DEFAULT_FILE: &str = "config/xdelay.toml";

/// Where settings come from. It holds passwords as they were typed, so it has no `Debug`.
#[derive(Default)]
pub struct Sources {
    /// The file of `--config`, which must exist. `None` reads [`DEFAULT_FILE`] when it is present.
    pub file: Option<PathBuf>,
    /// The environment. Names that do not begin with `XDELAY_` are passed over.
    pub env: BTreeMap<String, String>,
    /// Key and value of each `--set`, in the order given; the last of equal keys wins.
    pub overrides: Vec<(String, String)>,
}

impl Sources {
    /// The environment of this process, with the given file and overrides.
    ///
    /// A variable that is not UTF-8 is refused by [`Config::load`] and not silently altered.
    #[must_use]
    pub fn with_process_env(file: Option<PathBuf>, overrides: Vec<(String, String)>) -> Self {
        let text = |value: std::ffi::OsString| value.to_string_lossy().into_owned();
        let env = std::env::vars_os().map(|(name, value)| (text(name), text(value)));
        let env = env.filter(|(name, _)| name.starts_with(layers::ENV_PREFIX));
        Self { file, env: env.collect(), overrides }
    }
}

impl Config {
    /// Reads all layers and the files they name, and checks the whole.
    ///
    /// # Errors
    ///
    /// [`Error`] with every problem found. A file that cannot be read or is not TOML is reported
    /// alone, because without it the remaining complaints would mislead.
    pub fn load(sources: Sources) -> Result<Self, Error> {
        let tree = tree::Tree::of_defaults()?;
        let file = layers::File::open(sources.file, DEFAULT_FILE.as_ref())?;
        let mut problems = Vec::new();
        let layers = layers::stack(&tree, file, &sources.env, &sources.overrides, &mut problems);
        let (raw, broken) = read::read(&layers, &tree, &mut problems);
        match raw.and_then(|raw| sections::resolve(raw, &layers, broken, &mut problems)) {
            Some(config) if problems.is_empty() => Ok(config),
            _ => Err(Error::new(problems)),
        }
    }
}

/// Splits the argument of `--set section.key=value`; made to be a `clap` value parser.
///
/// # Errors
///
/// Says what to write when there is no `=`. The argument is not repeated: it may be a password.
pub fn assignment(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write section.key=value")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}
