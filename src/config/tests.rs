//! The contract of the module, seen through [`Config::load`].

mod kafka;
mod layers;
mod proxy;
mod refusals;
mod secrets;
mod shipped;
mod unknown;

use std::path::PathBuf;

use super::{Config, Error, Sources};

/// The least that a configuration must name.
const LEAST: &str = "[redis]\nurl = \"redis://127.0.0.1\"\n[amqp]\nexchanges = [\"orders\"]\n";

/// A file of one test, with its directory.
struct Files {
    directory: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Like `write`, as the text of a setting.
    fn path(&self, name: &str, text: &str) -> String {
        self.write(name, text).to_str().unwrap().to_owned()
    }
}

fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// Loads a file with this text, these variables and these flags.
fn load(toml: &str, env: &[(&str, &str)], sets: &[(&str, &str)]) -> Result<Config, Error> {
    let files = Files::new();
    let file = Some(files.write("x.toml", toml));
    let env = pairs(env).into_iter().collect();
    Config::load(Sources { file, env, overrides: pairs(sets) })
}

/// The lines of the refusal.
fn refused(toml: &str, env: &[(&str, &str)], sets: &[(&str, &str)]) -> Vec<String> {
    let error = load(toml, env, sets).expect_err("it should have been refused");
    let lines: Vec<_> = error.problems().iter().map(ToString::to_string).collect();
    assert!(!lines.is_empty());
    assert!(lines.iter().all(|line| !line.contains('\n')), "{lines:?}");
    lines
}

/// The section that is in force without `store.path`.
fn redis(config: &Config) -> &super::Redis {
    match &config.store {
        super::Store::Redis(redis) => redis,
        super::Store::Embedded(path) => panic!("parks in {}", path.display()),
    }
}

/// The one line of the refusal of a flag on top of [`LEAST`].
fn refused_set(key: &str, value: &str) -> String {
    let mut lines = refused(LEAST, &[], &[(key, value)]);
    assert_eq!(lines.len(), 1, "{lines:?}");
    lines.remove(0)
}
