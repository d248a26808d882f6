//! Every key there is, taken from the serialised defaults, so that no second list can go stale.

use figment::value::{Dict, Value};

use super::error::{Error, Problem};
use super::schema::Raw;

/// Sections whose keys are not ours to know.
const OPEN: [&str; 1] = ["kafka.properties"];

/// The default of every key, as a tree.
pub(super) struct Tree {
    root: Value,
    keys: Vec<String>,
}

impl Tree {
    /// # Errors
    ///
    /// Only if the defaults could not be serialised, which a test rules out.
    pub(super) fn of_defaults() -> Result<Self, Error> {
        let failed = |error: figment::Error| Problem::of("defaults", "", error.to_string());
        let root = Value::serialize(Raw::default()).map_err(failed)?;
        let mut keys = Vec::new();
        leaves("", &root, &mut keys);
        Ok(Self { root, keys })
    }

    /// The full name of every key that takes a value, sorted.
    pub(super) fn keys(&self) -> &[String] {
        &self.keys
    }

    /// Whether this key takes a value: sections do not.
    pub(super) fn has(&self, key: &str) -> bool {
        let inside = |open: &str| {
            key.strip_prefix(open)
                .and_then(|rest| rest.strip_prefix('.'))
                .is_some_and(|name| !name.is_empty())
        };
        self.keys.iter().any(|known| known == key) || OPEN.into_iter().any(inside)
    }

    /// Whether a section takes any key.
    pub(super) fn is_open(section: &str) -> bool {
        OPEN.contains(&section)
    }

    /// The default of a key or section; `None` for an unknown one.
    pub(super) fn default_of(&self, key: &str) -> Option<&Value> {
        self.root.find_ref(key)
    }

    /// The names of all sections.
    pub(super) fn sections(&self) -> Vec<&str> {
        self.root().keys().map(String::as_str).collect()
    }

    /// The sections with their defaults.
    pub(super) fn root(&self) -> &Dict {
        static NONE: Dict = Dict::new();
        self.root.as_dict().unwrap_or(&NONE)
    }

    /// The longest beginning of a path that is a key or section.
    pub(super) fn known_part(&self, path: &[String]) -> String {
        let lengths = (0..=path.len()).rev();
        let mut parts = lengths.map(|length| path[..length].join("."));
        parts.find(|part| self.default_of(part).is_some()).unwrap_or_default()
    }
}

/// `section` and `key` as one name; the root has no name.
pub(super) fn join(section: &str, key: &str) -> String {
    if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") }
}

fn leaves(name: &str, value: &Value, keys: &mut Vec<String>) {
    match value.as_dict() {
        Some(dict) => dict.iter().for_each(|(key, value)| leaves(&join(name, key), value, keys)),
        None => keys.push(name.to_owned()),
    }
}
