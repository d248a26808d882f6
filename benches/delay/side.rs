//! The sides of a comparison: who stands between producer and consumer, and how xdelay is set up.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// What carries the messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Broker {
    #[default]
    Rabbitmq,
    Kafka,
}

/// The way into xdelay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Through {
    /// What producers write to stands beside the destination: an exchange or a topic.
    #[default]
    Capture,
    /// The port that producers connect to instead of to RabbitMQ.
    Proxy,
}

/// Where xdelay parks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Store {
    /// A Redis that writes its append-only file with `appendfsync always`.
    #[default]
    Redis,
    /// A directory of the same disk.
    Embedded,
}

/// How xdelay is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Setup {
    pub through: Through,
    pub store: Store,
    pub replicas: u32,
}

/// Who stands between producer and consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Side {
    /// Nobody: published to the destination itself.
    Alone,
    /// The do-nothing relay, on what xdelay captures into.
    Relay,
    /// xdelay.
    Xdelay(Setup),
}

impl Default for Setup {
    fn default() -> Self {
        Self { through: Through::default(), store: Store::default(), replicas: 1 }
    }
}

impl Broker {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rabbitmq => "RabbitMQ",
            Self::Kafka => "Kafka",
        }
    }
}

impl Side {
    /// How a table calls it. What is as by default goes without saying.
    pub(crate) fn name(self, broker: Broker) -> String {
        let setup = match self {
            Self::Alone => return format!("{} alone", broker.name()),
            Self::Relay => return "do-nothing relay".to_owned(),
            Self::Xdelay(setup) => setup,
        };
        let mut name = "xdelay".to_owned();
        if setup.through == Through::Proxy {
            name += ", proxy";
        }
        if setup.store == Store::Embedded {
            name += ", embedded store";
        }
        if setup.replicas > 1 {
            name += &format!(", {} replicas", setup.replicas);
        }
        name
    }
}
