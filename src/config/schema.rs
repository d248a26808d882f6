//! The settings as they are written, with their defaults. The names are public: they are the TOML
//! keys and the environment variables.
//!
//! Numbers are `i64` so that a negative one reaches the range check and is refused in its words.
//! Nothing here has `Debug`: an address is still plain text and may hold a password.

use std::fmt;
use std::time::Duration;

use figment::value::Dict;
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::{duration, size};

/// Every section.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Raw {
    pub redis: Redis,
    pub store: Store,
    pub delay: Delay,
    pub intake: Intake,
    pub release: Release,
    pub amqp: Amqp,
    pub proxy: Proxy,
    pub kafka: Kafka,
    pub admin: Admin,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Redis {
    /// `redis://`, `rediss://` or `unix://`, or one with `-cluster` or `-sentinel`; empty means not
    /// named.
    pub url: String,
    /// Path of a file that holds the URL.
    pub url_file: String,
    /// Path of a file that holds the password.
    pub password_file: String,
    /// First part of every key.
    pub namespace: String,
    /// Count per destination.
    pub buckets: i64,
    /// `local`, `replicas` or `none`.
    pub durability: String,
    /// Count.
    pub min_replicas: i64,
}

impl Default for Redis {
    fn default() -> Self {
        Self {
            url: String::new(),
            url_file: String::new(),
            password_file: String::new(),
            namespace: "xdelay".to_owned(),
            buckets: 1,
            durability: "local".to_owned(),
            min_replicas: 1,
        }
    }
}

#[derive(Default, Serialize, Deserialize)]
pub(super) struct Store {
    /// Path of a directory; empty means not named.
    pub path: String,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Delay {
    /// Duration.
    pub max: duration::Human,
    /// `bury` or `forward`.
    pub on_invalid: String,
}

impl Default for Delay {
    fn default() -> Self {
        let max = Duration::from_secs(3650 * 24 * 60 * 60);
        Self { max: duration::Human(max), on_invalid: "bury".to_owned() }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Intake {
    /// Count of unacked deliveries.
    pub prefetch: i64,
    /// Bytes.
    pub memory: size::Human,
}

impl Default for Intake {
    fn default() -> Self {
        Self { prefetch: 2000, memory: size::Human(64 << 20) }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Release {
    /// Count of messages.
    pub batch: i64,
    /// Duration.
    pub lease: duration::Human,
    /// Count of messages per replica.
    pub max_in_flight: i64,
    /// Messages per second and replica; 0 is no limit.
    pub rate_limit: i64,
    /// `retry` or `drop`.
    pub on_unroutable: String,
    /// Messages of one destination; 0 is no limit.
    pub dead_max: i64,
    pub retry: Retry,
}

impl Default for Release {
    fn default() -> Self {
        Self {
            batch: 200,
            lease: duration::Human(Duration::from_secs(30)),
            max_in_flight: 5000,
            rate_limit: 0,
            on_unroutable: "retry".to_owned(),
            dead_max: 100_000,
            retry: Retry::default(),
        }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Retry {
    /// Duration.
    pub first: duration::Human,
    /// Duration.
    pub max: duration::Human,
    /// Count of releases.
    pub attempts: i64,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            first: duration::Human(Duration::from_secs(1)),
            max: duration::Human(Duration::from_secs(300)),
            attempts: 20,
        }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Amqp {
    /// `amqp://` or `amqps://`: one, or a list of nodes of one cluster.
    pub url: Nodes,
    /// Path of a file with one URL per line.
    pub url_file: String,
    /// Path of a file that holds the password.
    pub password_file: String,
    /// Names of exchanges.
    pub exchanges: Vec<String>,
    /// Yes or no.
    pub declare: bool,
    /// `headers` or `topic`.
    pub front: String,
}

impl Default for Amqp {
    fn default() -> Self {
        Self {
            url: Nodes::One("amqp://guest:guest@127.0.0.1:5672/%2f".to_owned()),
            url_file: String::new(),
            password_file: String::new(),
            exchanges: Vec::new(),
            declare: true,
            front: "headers".to_owned(),
        }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Proxy {
    /// IP address and port; empty means no proxy.
    pub listen: String,
    /// Names of exchanges or patterns of them.
    pub exchanges: Vec<String>,
    /// Count.
    pub max_connections: i64,
    /// Duration.
    pub handshake_timeout: duration::Human,
    /// Networks.
    pub allow: Vec<String>,
    /// Networks.
    pub deny: Vec<String>,
    /// Yes or no.
    pub remote_guest: bool,
    /// Path of a file of PEM.
    pub tls_cert_file: String,
    /// Path of a file of PEM.
    pub tls_key_file: String,
    /// Path of a file of PEM.
    pub tls_client_ca_file: String,
    /// Yes or no.
    pub plaintext: bool,
    /// Path of a file of PEM.
    pub upstream_ca_file: String,
    /// Path of a file of PEM.
    pub upstream_cert_file: String,
    /// Path of a file of PEM.
    pub upstream_key_file: String,
    /// Yes or no.
    pub proxy_protocol: bool,
}

impl Default for Proxy {
    fn default() -> Self {
        Self {
            listen: String::new(),
            exchanges: vec!["*".to_owned()],
            max_connections: 10_000,
            handshake_timeout: duration::Human(Duration::from_secs(10)),
            allow: Vec::new(),
            deny: Vec::new(),
            remote_guest: false,
            tls_cert_file: String::new(),
            tls_key_file: String::new(),
            tls_client_ca_file: String::new(),
            plaintext: false,
            upstream_ca_file: String::new(),
            upstream_cert_file: String::new(),
            upstream_key_file: String::new(),
            proxy_protocol: false,
        }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Kafka {
    /// `host:port`, several separated by commas.
    pub brokers: String,
    /// Names of topics, or `*`.
    pub topics: Vec<String>,
    /// Consumer group.
    pub group: String,
    /// Yes or no.
    pub create_topics: bool,
    /// Yes or no.
    pub preserve_partition: bool,
    /// Properties of librdkafka by name. A dot in a name may be written as a table, and what ends
    /// in `_file` is the path of a file that holds the value.
    pub properties: Dict,
}

impl Default for Kafka {
    fn default() -> Self {
        Self {
            brokers: "127.0.0.1:9092".to_owned(),
            topics: Vec::new(),
            group: "xdelay".to_owned(),
            create_topics: false,
            preserve_partition: false,
            properties: Dict::new(),
        }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Admin {
    /// IP address and port.
    pub listen: String,
    /// Path of a file that holds the token.
    pub token_file: String,
    /// Path of a file that holds another token, to look only.
    pub read_token_file: String,
    /// Whether bodies are shown.
    pub previews: bool,
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:7380".to_owned(),
            token_file: String::new(),
            read_token_file: String::new(),
            previews: true,
        }
    }
}

/// One address or several.
#[derive(PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(super) enum Nodes {
    One(String),
    Many(Vec<String>),
}

impl<'de> Deserialize<'de> for Nodes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Written)
    }
}

struct Written;

impl<'de> Visitor<'de> for Written {
    type Value = Nodes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a URL or a list of URLs")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Nodes, E> {
        Ok(Nodes::One(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Nodes, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = list.next_element()? {
            nodes.push(node);
        }
        Ok(Nodes::Many(nodes))
    }
}
