//! Types: merged layers become [`Raw`], and every value of a wrong type is refused, not only the
//! first one serde stops at.

use std::collections::BTreeSet;

use figment::error::Kind;
use figment::providers::Serialized;
use figment::value::Value;

use super::error::Problem;
use super::origin::{self, Layers};
use super::schema::Raw;
use super::tree::Tree;

/// Keys whose value was refused already: their checks are skipped.
pub(super) type Broken = BTreeSet<String>;

/// Reads all values. serde reports one wrong value at a time, so each is noted, replaced by its
/// default, and the rest is read again; every round breaks one more key, which bounds the rounds.
pub(super) fn read(
    layers: &Layers,
    tree: &Tree,
    problems: &mut Vec<Problem>,
) -> (Option<Raw>, Broken) {
    let mut broken = Broken::new();
    let mut figment = layers.figment.clone();
    loop {
        let errors = match figment.extract::<Raw>() {
            Ok(raw) => return (Some(raw), broken),
            Err(errors) => errors,
        };
        for error in errors {
            let key = tree.known_part(&error.path);
            let default = tree.default_of(&key).filter(|_| !key.is_empty());
            let (Some(default), true) = (default, broken.insert(key.clone())) else {
                problems.push(Problem::of(&key, "", "cannot be read"));
                return (None, broken);
            };
            let value = layers.shown(&key);
            let says = says(&error.kind, default);
            problems.push(Problem { value, ..Problem::of(&key, &layers.origin(&key), says) });
            figment = figment.merge(Serialized::default(&key, default));
        }
    }
}

/// Our own messages as they are, serde's in words for an operator. serde's text is not used: it
/// quotes the value.
fn says(kind: &Kind, default: &Value) -> String {
    let expected = match kind {
        Kind::Message(text) => return text.clone(),
        Kind::InvalidType(_, expected) | Kind::InvalidValue(_, expected) => match expected.as_str()
        {
            "i64" => "a whole number",
            "a boolean" => "true or false",
            "a sequence" => "a list",
            expected => expected,
        },
        _ => "another kind of value",
    };
    let example = match default {
        Value::Array(..) => Some("[\"orders\"]".to_owned()),
        Value::String(_, text) if text.contains("://") => {
            Some("\"amqp://127.0.0.1:5672\"".to_owned())
        }
        Value::String(_, text) if text.is_empty() => None,
        default => origin::shown(default),
    };
    match example {
        Some(example) => format!("expected {expected}, such as {example}"),
        None => format!("expected {expected}"),
    }
}
