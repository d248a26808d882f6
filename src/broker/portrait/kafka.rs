//! A record of Kafka in words, and back.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{Portrait, text_or_hex};
use crate::message::{KafkaContent, RecordHeaders};

/// Describes a record. A header that is repeated becomes a list, in order.
pub(super) fn portray(record: &KafkaContent) -> Portrait {
    let mut properties = Map::new();
    properties.insert("partition".into(), record.partition.into());
    if let Some(timestamp) = record.timestamp_ms {
        properties.insert("timestamp".into(), timestamp.into());
    }
    if record.key.is_none() {
        properties.insert("key".into(), Value::Null);
    }
    if record.value.is_none() {
        properties.insert("value".into(), Value::Null);
    }
    let mut headers = Map::new();
    for (name, value) in record.headers.iter() {
        let value = value.map_or(Value::Null, text_or_hex);
        match headers.get_mut(name) {
            None => drop(headers.insert(name.to_owned(), value)),
            Some(Value::Array(several)) => several.push(value),
            Some(first) => *first = json!([first.take(), value]),
        }
    }
    Portrait {
        key: String::from_utf8_lossy(record.key.as_deref().unwrap_or_default()).into_owned(),
        properties,
        headers,
        body: record.value.clone().unwrap_or_default(),
    }
}

/// Makes a record; one without a key has none, and is not an empty one.
pub(super) fn compose(portrait: Portrait) -> Result<KafkaContent, String> {
    if let Some(name) = portrait.properties.keys().next() {
        return Err(format!("a record has no property `{name}` to set"));
    }
    let mut headers = Vec::new();
    for (name, value) in &portrait.headers {
        let several = match value {
            Value::Array(several) => several.as_slice(),
            one => std::slice::from_ref(one),
        };
        for value in several {
            headers.push((name.as_str(), header_value(name, value)?));
        }
    }
    let headers = headers.iter().map(|(name, value)| (*name, value.as_deref()));
    Ok(KafkaContent {
        key: Some(portrait.key).filter(|key| !key.is_empty()).map(Bytes::from),
        value: Some(portrait.body),
        headers: RecordHeaders::pack(headers),
        partition: 0,
        timestamp_ms: None,
    })
}

fn header_value(name: &str, value: &Value) -> Result<Option<Bytes>, String> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(Bytes::from(text.clone()))),
        Value::Number(number) => Ok(Some(Bytes::from(number.to_string()))),
        _ => {
            Err(format!("header `{name}` of a record is text, a number, null, or a list of these"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_what_they_see() {
        let headers = json!({"a": "1", "b": ["x", null, "y"]});
        let portrait = Portrait {
            key: "order-1".into(),
            headers: headers.as_object().expect("an object").clone(),
            body: "{}".into(),
            ..Portrait::default()
        };
        let seen = portray(&compose(portrait.clone()).expect("it can be carried"));
        assert_eq!(
            (seen.key, seen.headers, seen.body),
            (portrait.key, portrait.headers, portrait.body)
        );
    }

    #[test]
    fn no_key_and_no_value_are_told_from_empty_ones() {
        let record =
            KafkaContent { key: None, value: None, ..compose(Portrait::default()).expect("ok") };
        let seen = portray(&record);
        assert_eq!(
            (&seen.properties["key"], &seen.properties["value"]),
            (&Value::Null, &Value::Null)
        );
    }
}
