//! A message of RabbitMQ in words, and back.

use std::collections::BTreeMap;

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldArray, FieldTable, ShortString};
use serde_json::{Map, Number, Value, json};

use super::properties;
use crate::broker::portrait::{Portrait, text_or_hex};
use crate::message::AmqpContent;

/// Describes a message.
pub(in crate::broker) fn portray(content: &AmqpContent) -> Result<Portrait, String> {
    let decoded = properties::decode(&content.properties)?;
    let headers = decoded.headers().as_ref().map(table).unwrap_or_default();
    Ok(Portrait {
        key: String::from_utf8_lossy(&content.routing_key).into_owned(),
        properties: properties_in_words(&decoded),
        headers,
        body: content.body.clone(),
    })
}

fn properties_in_words(properties: &BasicProperties) -> Map<String, Value> {
    let mut words = Map::new();
    let mut text = |name: &str, value: &Option<ShortString>| {
        if let Some(value) = value {
            words.insert(name.into(), value.as_str().into());
        }
    };
    text("content_type", properties.content_type());
    text("content_encoding", properties.content_encoding());
    text("correlation_id", properties.correlation_id());
    text("reply_to", properties.reply_to());
    text("expiration", properties.expiration());
    text("message_id", properties.message_id());
    text("type", properties.kind());
    text("user_id", properties.user_id());
    text("app_id", properties.app_id());
    text("cluster_id", properties.cluster_id());
    let mut number = |name: &str, value: Option<u64>| {
        if let Some(value) = value {
            words.insert(name.into(), value.into());
        }
    };
    number("delivery_mode", properties.delivery_mode().map(u64::from));
    number("priority", properties.priority().map(u64::from));
    number("timestamp", *properties.timestamp());
    words
}

fn table(table: &FieldTable) -> Map<String, Value> {
    table.inner().iter().map(|(name, it)| (name.as_str().to_owned(), value(it))).collect()
}

fn value(value: &AMQPValue) -> Value {
    let float = |number: f64| Number::from_f64(number).map_or(json!(number.to_string()), json_of);
    match value {
        AMQPValue::Boolean(it) => json!(it),
        AMQPValue::ShortShortInt(it) => json!(it),
        AMQPValue::ShortShortUInt(it) => json!(it),
        AMQPValue::ShortInt(it) => json!(it),
        AMQPValue::ShortUInt(it) => json!(it),
        AMQPValue::LongInt(it) => json!(it),
        AMQPValue::LongUInt(it) => json!(it),
        AMQPValue::LongLongInt(it) => json!(it),
        AMQPValue::Timestamp(it) => json!(it),
        AMQPValue::Float(it) => float(f64::from(*it)),
        AMQPValue::Double(it) => float(*it),
        AMQPValue::DecimalValue(it) => json!(format!("{}e-{}", it.value, it.scale)),
        AMQPValue::ShortString(it) => json!(it.as_str()),
        AMQPValue::LongString(it) => text_or_hex(it.as_bytes()),
        AMQPValue::ByteArray(it) => text_or_hex(it.as_slice()),
        AMQPValue::FieldArray(it) => it.as_slice().iter().map(self::value).collect(),
        AMQPValue::FieldTable(it) => Value::Object(table(it)),
        AMQPValue::Void => Value::Null,
    }
}

fn json_of(number: Number) -> Value {
    Value::Number(number)
}

/// Makes a message; without a delivery mode it is persistent, since it is meant to wait.
pub(in crate::broker) fn compose(portrait: Portrait) -> Result<AmqpContent, String> {
    let Portrait { key, properties, headers, body } = portrait;
    let routing_key = short("the routing key", &key)?;
    let mut made = BasicProperties::default().with_delivery_mode(2);
    for (name, value) in &properties {
        made = set(made, name, value)?;
    }
    if !headers.is_empty() {
        made = made.with_headers(fields(&headers)?);
    }
    Ok(AmqpContent {
        routing_key: routing_key.as_str().as_bytes().to_vec().into(),
        properties: properties::encode(&made),
        body,
    })
}

fn set(made: BasicProperties, name: &str, value: &Value) -> Result<BasicProperties, String> {
    let byte = || {
        let number = value.as_u64().and_then(|it| u8::try_from(it).ok());
        number.ok_or_else(|| format!("property `{name}` is a number from 0 to 255"))
    };
    let text = || {
        let text = value.as_str().ok_or_else(|| format!("property `{name}` is text"))?;
        short(&format!("property `{name}`"), text)
    };
    Ok(match name {
        "content_type" => made.with_content_type(text()?),
        "content_encoding" => made.with_content_encoding(text()?),
        "correlation_id" => made.with_correlation_id(text()?),
        "reply_to" => made.with_reply_to(text()?),
        "expiration" => made.with_expiration(text()?),
        "message_id" => made.with_message_id(text()?),
        "type" => made.with_type(text()?),
        "app_id" => made.with_app_id(text()?),
        "delivery_mode" => made.with_delivery_mode(byte()?),
        "priority" => made.with_priority(byte()?),
        "timestamp" => {
            let seconds = value.as_u64().ok_or("property `timestamp` is in seconds since 1970")?;
            made.with_timestamp(seconds)
        }
        other => {
            return Err(format!(
                "there is no property `{other}` to set; there are content_type, \
                 content_encoding, correlation_id, reply_to, expiration, message_id, type, app_id, \
                 delivery_mode, priority and timestamp"
            ));
        }
    })
}

fn short(what: &str, text: &str) -> Result<ShortString, String> {
    ShortString::try_new(text).map_err(|_| format!("{what} is longer than 255 bytes"))
}

fn fields(headers: &Map<String, Value>) -> Result<FieldTable, String> {
    let field = |(name, value): (&String, &Value)| {
        Ok((short(&format!("header `{name}`"), name)?, amqp_value(value)?))
    };
    let fields: Result<BTreeMap<_, _>, String> = headers.iter().map(field).collect();
    fields.map(FieldTable::from)
}

fn amqp_value(value: &Value) -> Result<AMQPValue, String> {
    Ok(match value {
        Value::Null => AMQPValue::Void,
        Value::Bool(it) => AMQPValue::Boolean(*it),
        Value::String(it) => AMQPValue::LongString(it.as_str().into()),
        Value::Number(it) => match (it.as_i64(), it.as_f64()) {
            // As small as it fits: some clients read large types without their sign.
            (Some(number), _) => match i32::try_from(number) {
                Ok(number) => AMQPValue::LongInt(number),
                Err(_) => AMQPValue::LongLongInt(number),
            },
            (None, Some(number)) => AMQPValue::Double(number),
            (None, None) => return Err(format!("AMQP has no number like {it}")),
        },
        Value::Array(items) => {
            let items: Result<Vec<_>, String> = items.iter().map(amqp_value).collect();
            AMQPValue::FieldArray(FieldArray::from(items?))
        }
        Value::Object(inner) => AMQPValue::FieldTable(fields(inner)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().expect("an object").clone()
    }

    #[test]
    fn what_people_write_is_what_they_see() {
        let portrait = Portrait {
            key: "eu.de".into(),
            properties: map(json!({"content_type": "application/json", "priority": 4,
                "delivery_mode": 1, "timestamp": 1_700_000_000})),
            headers: map(json!({"a": 1, "b": -5_000_000_000_i64, "c": [true, null, "x"],
                "d": {"e": 0.5}})),
            body: "{}".into(),
        };
        let content = compose(portrait.clone()).expect("it can be carried");
        assert_eq!(portray(&content), Ok(portrait));
    }

    #[test]
    fn a_message_is_persistent_unless_told_otherwise() {
        let content = compose(Portrait::default()).expect("it can be carried");
        let seen = portray(&content).expect("readable");
        assert_eq!(seen.properties["delivery_mode"], 2);
    }

    #[test]
    fn what_cannot_be_carried_is_said() {
        for (properties, says) in [
            (json!({"priority": 300}), "0 to 255"),
            (json!({"user_id": "me"}), "no property `user_id`"),
            (json!({"reply_to": 3}), "is text"),
        ] {
            let portrait = Portrait { properties: map(properties), ..Portrait::default() };
            let error = compose(portrait).expect_err("refused");
            assert!(error.contains(says), "{error}");
        }
    }
}
