//! What xdelay carries: a message, the names it goes by, and where it is bound for.
//!
//! Plain data, without a broker's or a store's types, so that both sides of the house can speak
//! of the same message. Content is kept as it travels on the wire, never decoded further than
//! its delay needs: what is not decoded cannot be changed by accident.

pub(crate) mod amqp;
mod record;
mod uid;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

pub use amqp::AmqpContent;
pub use record::{KafkaContent, RecordHeaders};
pub use uid::Uid;

/// The longest id a producer may choose, in bytes of UTF-8.
pub const ID_BYTES_MAX: usize = 255;

/// The producer's own name for a message, unique within its destination.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProducerId(Box<str>);

impl ProducerId {
    /// Takes UTF-8 of 1 to [`ID_BYTES_MAX`] bytes; anything else is `None`.
    pub fn new(id: &[u8]) -> Option<Self> {
        if id.is_empty() || id.len() > ID_BYTES_MAX {
            return None;
        }
        std::str::from_utf8(id).ok().map(|text| Self(text.into()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProducerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which kind of broker a destination lives on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BrokerKind {
    /// AMQP 0-9-1, that is RabbitMQ: a destination is an exchange.
    Amqp,
    /// Kafka: a destination is a topic.
    Kafka,
}

impl BrokerKind {
    /// The word in key names, metric labels and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Amqp => "amqp",
            Self::Kafka => "kafka",
        }
    }

    /// Reads what [`as_str`](Self::as_str) wrote.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Amqp, Self::Kafka].into_iter().find(|kind| kind.as_str() == text)
    }
}

/// The exchange or topic a message was meant for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Destination {
    /// The kind of broker it lives on.
    pub broker: BrokerKind,
    /// Its name there.
    pub name: Arc<str>,
}

impl Destination {
    /// The exchange `name` of RabbitMQ.
    pub fn amqp(name: &str) -> Self {
        Self { broker: BrokerKind::Amqp, name: name.into() }
    }

    /// The topic `name` of Kafka.
    pub fn kafka(name: &str) -> Self {
        Self { broker: BrokerKind::Kafka, name: name.into() }
    }

    /// How a store lists it among others.
    pub fn listing(&self) -> String {
        format!("{}:{}", self.broker.as_str(), self.name)
    }

    /// Reads a [`listing`](Self::listing); `None` for one that a newer version wrote.
    pub fn from_listing(text: &str) -> Option<Self> {
        let (broker, name) = text.split_once(':')?;
        Some(Self { broker: BrokerKind::parse(broker)?, name: name.into() })
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.broker.as_str(), self.name)
    }
}

/// A captured message, complete: what is parked, and what will be released.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Its name in the store and on every released copy.
    pub uid: Uid,
    /// The producer's own id, when it gave one.
    pub id: Option<ProducerId>,
    /// The delay its producer asked for, in milliseconds; `None` when it asked for none.
    pub delay_ms: Option<u64>,
    /// The bytes that travel.
    pub content: Content,
}

impl Message {
    /// Bytes it holds in memory, near enough to bound a batch by.
    pub fn size(&self) -> usize {
        match &self.content {
            Content::Amqp(amqp) => amqp.routing_key.len() + amqp.properties.len() + amqp.body.len(),
            Content::Kafka(record) => record.size(),
        }
    }
}

/// The message itself, in its broker's own terms.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Captured from RabbitMQ.
    Amqp(AmqpContent),
    /// Captured from Kafka.
    Kafka(KafkaContent),
}

impl Content {
    /// Who the broker says published it, where brokers know.
    pub fn user_id(&self) -> Option<Bytes> {
        match self {
            Self::Amqp(amqp) => amqp.user_id(),
            Self::Kafka(_) => None,
        }
    }
}

/// Why a message was not released or is buried, in words for the operator who will find it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    label: &'static str,
    text: String,
}

impl Reason {
    /// The longest reason kept, in bytes: brokers' error texts may be of any length.
    const BYTES_MAX: usize = 512;

    /// A reason in one line of bounded length. `label` is one of few words, for metrics.
    pub fn new(label: &'static str, text: impl Into<String>) -> Self {
        let mut text: String = text.into();
        if text.len() > Self::BYTES_MAX {
            let cut = (0..=Self::BYTES_MAX).rev().find(|at| text.is_char_boundary(*at));
            text.truncate(cut.unwrap_or(0));
        }
        let text = text.replace(['\n', '\r'], " ");
        Self { label, text }
    }

    /// Its kind, one of few.
    pub fn label(&self) -> &'static str {
        self.label
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_reads_back() {
        let destination = Destination::amqp("a:b");
        assert_eq!(Destination::from_listing(&destination.listing()), Some(destination));
        let topic = Destination::kafka("orders.v2");
        assert_eq!(Destination::from_listing(&topic.listing()), Some(topic));
        assert_eq!(Destination::from_listing("carrier-pigeon:a"), None);
    }

    #[test]
    fn ids_are_utf8_of_1_to_255_bytes() {
        assert!(ProducerId::new(b"").is_none());
        assert!(ProducerId::new(&[0xff]).is_none());
        assert!(ProducerId::new(&[b'a'; 256]).is_none());
        assert_eq!(ProducerId::new("ü".as_bytes()).unwrap().as_str(), "ü");
        assert!(ProducerId::new(&[b'a'; 255]).is_some());
    }

    #[test]
    fn a_reason_is_one_line_of_bounded_length() {
        let reason = Reason::new("test", format!("a\nb{}", "ü".repeat(400)));
        assert!(reason.as_str().starts_with("a b"));
        assert!(reason.as_str().len() <= Reason::BYTES_MAX);
    }
}
