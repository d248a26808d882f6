//! The four layers, and text turned into values.
//!
//! A variable and a flag are text. What the text means follows from the default of its key, so
//! that a password `12345` stays a string and `orders` becomes a list of one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use figment::providers::{Format, Serialized, Toml};
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};

use super::error::{Error, Problem};
use super::origin::{self, Layers, Place};
use super::tree::Tree;
use super::{schema, unknown};

/// What every variable of ours begins with.
pub(super) const ENV_PREFIX: &str = "XDELAY_";

/// A TOML file, parsed but not yet checked.
pub(super) struct File {
    place: Place,
    dict: Dict,
}

impl File {
    /// Opens the named file, or the default one if it is there.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or is not TOML. The text itself is never quoted, because the
    /// line that does not parse may hold a password.
    pub(super) fn open(named: Option<PathBuf>, default: &Path) -> Result<Option<Self>, Error> {
        let path = match named {
            Some(path) => path,
            None if default.exists() => default.to_owned(),
            None => return Ok(None),
        };
        let name = path.display().to_string();
        let unreadable = |error| Problem::of(&name, &name, format!("cannot be read: {error}"));
        let text = std::fs::read_to_string(&path).map_err(unreadable)?;
        let dict = Toml::from_str(&text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start));
            let line = before.map_or(1, |before| before.matches('\n').count() + 1);
            let says = format!("is not valid TOML: {}", error.message().replace('\n', ", "));
            Problem::of(&format!("{name}:{line}"), &format!("{name}:{line}"), says)
        })?;
        Ok(Some(Self { place: Place { path, text }, dict }))
    }
}

/// Merges defaults, file, environment and flags. Keys that do not exist are refused here.
pub(super) fn stack(
    tree: &Tree,
    file: Option<File>,
    env: &BTreeMap<String, String>,
    overrides: &[(String, String)],
    problems: &mut Vec<Problem>,
) -> Layers {
    let mut figment = Figment::from(Serialized::defaults(schema::Raw::default()));
    let file = file.map(|File { place, mut dict }| {
        unknown::prune(&mut dict, tree, &place, problems);
        let metadata = Metadata::from("file", place.path.as_path());
        figment = std::mem::take(&mut figment).merge(Layer { metadata, dict });
        place
    });
    let from_env = env.iter().filter_map(|(name, value)| variable(name, value, tree, problems));
    let entries: Vec<_> = from_env.collect();
    let from_flags = overrides.iter().filter_map(|(key, value)| {
        let written = format!("--set {key}");
        if tree.has(key) {
            return Some((key.clone(), value.as_str(), written));
        }
        let says = unknown::advice(key, tree, |key| format!("--set {key}="));
        problems.push(Problem::of(key, "--set", says));
        None
    });
    for (key, text, written) in entries.into_iter().chain(from_flags.collect::<Vec<_>>()) {
        figment = figment.merge(Layer::entry(&key, text, written, tree));
    }
    Layers { figment, file }
}

/// Key, value and origin of a variable; `None` if it is refused or none of ours.
fn variable<'a>(
    name: &str,
    value: &'a str,
    tree: &Tree,
    problems: &mut Vec<Problem>,
) -> Option<(String, &'a str, String)> {
    let rest = name.strip_prefix(ENV_PREFIX)?;
    if !rest.contains("__") {
        problems.extend(unknown::variable(name, value, tree));
        return None;
    }
    let key = rest.replace("__", ".").to_ascii_lowercase();
    if !tree.has(&key) {
        let says = unknown::advice(&key, tree, origin::variable);
        problems.push(Problem::of(name, "environment", says));
        return None;
    }
    if value.contains(char::REPLACEMENT_CHARACTER) {
        problems.push(Problem::of(name, "environment", "is not UTF-8"));
        return None;
    }
    Some((key, value, format!("environment variable {name}")))
}

/// Values of one origin.
struct Layer {
    metadata: Metadata,
    dict: Dict,
}

impl Layer {
    fn entry(key: &str, text: &str, written: String, tree: &Tree) -> Self {
        let value = typed(text, tree.default_of(key));
        let nested = figment::util::nest(key, value).into_dict();
        let metadata = Metadata::from("text", figment::Source::Custom(written));
        Self { metadata, dict: nested.unwrap_or_default() }
    }
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        self.metadata.clone()
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Profile::Default.collect(self.dict.clone()))
    }
}

/// Text as a value of the kind its key has; what does not fit stays text and is refused later.
fn typed(text: &str, default: Option<&Value>) -> Value {
    let text = text.trim();
    let number = || text.parse::<i64>().ok().map(Value::from);
    let value = match default {
        Some(Value::Num(..)) => number(),
        Some(Value::Bool(..)) => text.parse::<bool>().ok().map(Value::from),
        Some(Value::Array(..)) => list(text),
        // Several nodes, for a key that takes a URL or a list. No other text begins like this.
        _ if text.starts_with("[\"") => list(text),
        _ => None,
    };
    // Docker Compose keeps the quotes of `- NAME="value"`.
    let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    value.unwrap_or_else(|| Value::from(quoted.unwrap_or(text)))
}

/// `["a","b"]`, `a,b`, `a` or nothing.
fn list(text: &str) -> Option<Value> {
    if text.starts_with('[') {
        let Ok(value) = text.parse::<Value>();
        return value.as_array().is_some().then_some(value);
    }
    if text.is_empty() {
        return Some(Value::from(Vec::<String>::new()));
    }
    let names = text.split(',').map(|name| name.trim().trim_matches('"').to_owned());
    Some(Value::from(names.collect::<Vec<_>>()))
}
