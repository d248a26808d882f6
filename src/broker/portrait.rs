//! What a parked message looks like to people, and a message as people write one: JSON on one side,
//! a broker's own terms on the other.

mod kafka;

use bytes::Bytes;
use serde_json::{Map, Value};

use super::amqp::portrait;
use crate::message::{BrokerKind, Content};

/// A message in words.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Portrait {
    /// Routing key or record key, as text as far as it is text.
    pub key: String,
    /// Properties that are set, by their names in the protocol.
    pub properties: Map<String, Value>,
    /// Headers, by name.
    pub headers: Map<String, Value>,
    /// The body, untouched.
    pub body: Bytes,
}

/// Bytes that are no text, for people.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Text where it is text, else in hex.
pub(in crate::broker) fn text_or_hex(bytes: &[u8]) -> Value {
    std::str::from_utf8(bytes).map_or_else(|_| hex(bytes).into(), Value::from)
}

/// Describes a message. What cannot be told in words, such as bytes in a header, is told in hex.
///
/// # Errors
/// Why its properties cannot be read.
pub fn portray(content: &Content) -> Result<Portrait, String> {
    match content {
        Content::Amqp(amqp) => portrait::portray(amqp),
        Content::Kafka(record) => Ok(kafka::portray(record)),
    }
}

/// Makes the message that a portrait describes.
///
/// # Errors
/// What the broker cannot carry, in words for whoever wrote it.
pub fn compose(broker: BrokerKind, portrait: Portrait) -> Result<Content, String> {
    match broker {
        BrokerKind::Amqp => portrait::compose(portrait).map(Content::Amqp),
        BrokerKind::Kafka => kafka::compose(portrait).map(Content::Kafka),
    }
}
