//! Where a value was written: a line of a file, an environment variable, a flag.

use std::path::PathBuf;

use figment::value::Value;
use figment::{Figment, Metadata, Source};

use super::layers::ENV_PREFIX;
use super::secret::REDACTED;
use super::tree::join;

/// Keys whose value may hold a password. A problem shows `***` instead.
const SECRET: [&str; 2] = ["redis.url", "amqp.url"];

/// Longest value that is repeated in a problem, in characters.
const SHOWN_CHARS: usize = 80;

/// A TOML file that was read.
#[derive(Default)]
pub(super) struct Place {
    pub path: PathBuf,
    pub text: String,
}

impl Place {
    /// `path:line` of a key, or the path alone when the line cannot be told.
    pub(super) fn of_key(&self, key: &str) -> String {
        let path = self.path.display();
        line_of(&self.text, key).map_or_else(|| path.to_string(), |line| format!("{path}:{line}"))
    }
}

/// The environment variable that sets a key.
pub(super) fn variable(key: &str) -> String {
    format!("{ENV_PREFIX}{}", key.replace('.', "__").to_ascii_uppercase())
}

/// The merged layers, asked by key.
pub(super) struct Layers {
    pub figment: Figment,
    pub file: Option<Place>,
}

impl Layers {
    /// Where the value of a key in force was written.
    pub(super) fn origin(&self, key: &str) -> String {
        let source = self
            .figment
            .find_metadata(key)
            .and_then(|metadata: &Metadata| metadata.source.as_ref());
        match (source, &self.file) {
            (Some(Source::Custom(name)), _) => name.clone(),
            (Some(Source::File(_)), Some(file)) => file.of_key(key),
            _ => "default".to_owned(),
        }
    }

    /// The value of a key as it may be shown, `***` for a secret.
    pub(super) fn shown(&self, key: &str) -> Option<String> {
        let value = self.figment.find_value(key).ok()?;
        let is_empty = value.as_str().is_some_and(str::is_empty);
        // A password that was typed where the path of its file belongs has no slash, mostly.
        let is_path = value.as_str().is_some_and(|text| text.contains('/'));
        let is_secret = SECRET.contains(&key)
            || key.starts_with("kafka.properties.")
            || (key.ends_with("_file") && !is_path);
        if is_secret && !is_empty { Some(REDACTED.to_owned()) } else { shown(&value) }
    }
}

/// A value as it may be shown; tables are not.
pub(super) fn shown(value: &Value) -> Option<String> {
    Some(match value {
        Value::String(_, text) => quoted(text),
        Value::Char(_, c) => quoted(&c.to_string()),
        Value::Bool(_, yes) => yes.to_string(),
        Value::Num(_, number) => match (number.to_i128(), number.to_u128(), number.to_f64()) {
            (Some(number), _, _) => number.to_string(),
            (_, Some(number), _) => number.to_string(),
            (_, _, number) => number?.to_string(),
        },
        Value::Array(_, list) => {
            let list: Option<Vec<_>> = list.iter().map(shown).collect();
            format!("[{}]", list?.join(", "))
        }
        Value::Dict(..) | Value::Empty(..) => return None,
    })
}

/// Quotes a value. An address that was put under the wrong key may hold a password all the same.
pub(super) fn quoted(text: &str) -> String {
    if text.contains("://") {
        return REDACTED.to_owned();
    }
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// The line of a key, counted from 1. It reads line by line and does not follow TOML in every
/// corner: a wrong or missing line costs the reader a search and nothing else.
fn line_of(text: &str, key: &str) -> Option<usize> {
    let inside = |name: &str, of: &str| name == of || name.starts_with(&format!("{of}."));
    let mut section = String::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            section = header.trim_start_matches('[').trim().to_owned();
            if inside(&section, key) {
                return Some(number + 1);
            }
        } else if let Some((name, _)) = line.split_once('=') {
            let name = join(&section, name.trim().trim_matches(['"', '\'']));
            if inside(key, &name) || inside(&name, key) {
                return Some(number + 1);
            }
        }
    }
    None
}
