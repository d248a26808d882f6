//! The settings as the program uses them: every value checked, every file already read.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use super::{Identity, Network, Secret, TlsFiles, Url};

/// A whole configuration that passed every check. Get one from [`Config::load`].
#[derive(Clone, Debug)]
pub struct Config {
    /// Where messages are parked.
    pub store: Store,
    /// Which delays are accepted.
    pub delay: Delay,
    /// How much is taken in at once.
    pub intake: Intake,
    /// How due messages are given back.
    pub release: Release,
    /// The RabbitMQ that is served, when it has exchanges.
    pub amqp: Amqp,
    /// The AMQP proxy, where there is to be one.
    pub proxy: Option<Proxy>,
    /// The Kafka that is served, when it has topics.
    pub kafka: Kafka,
    /// The admin API.
    pub admin: Admin,
}

/// Where messages are parked: `redis.url` or `store.path`, whichever was named.
#[derive(Clone, Debug)]
pub enum Store {
    /// In Redis or Valkey, which several replicas may share.
    Redis(Redis),
    /// In a file of this directory, which one process has to itself.
    Embedded(PathBuf),
}

/// `[redis]`
#[derive(Clone, Debug)]
pub struct Redis {
    /// The address, with the content of `password_file` in it.
    pub url: Url,
    /// First part of every key: 1 or more of `A-Z a-z 0-9 . _ -`.
    pub namespace: String,
    /// Buckets of one destination, 1 to 1024.
    pub buckets: u16,
    /// What must hold before the broker is acked.
    pub durability: Durability,
    /// Replicas that must have a park; at least 1 when `durability` is [`Durability::Replicas`].
    pub min_replicas: u32,
}

/// `redis.durability`: what must hold before the broker is acked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The park is on the disk of the Redis that answered.
    Local,
    /// `min_replicas` replicas have it too.
    Replicas,
    /// Nothing: a crash of Redis may lose what it acknowledged.
    None,
}

/// `[delay]`
#[derive(Clone, Debug)]
pub struct Delay {
    /// The longest delay that is accepted, above 0 and at most 36500 days.
    pub max: Duration,
    /// What becomes of a message whose delay cannot be understood or is too long.
    pub on_invalid: OnInvalid,
}

/// `delay.on_invalid`: what becomes of a message whose delay cannot be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnInvalid {
    /// It is kept with the reason, for an operator.
    Bury,
    /// It is delivered at once, as the RabbitMQ plugin does.
    Forward,
}

/// `[intake]`
#[derive(Clone, Debug)]
pub struct Intake {
    /// Deliveries that may be unacked at once, 1 to 65535.
    pub prefetch: u16,
    /// Bytes of messages held before they are parked, at least 1 MiB.
    pub memory: u64,
}

/// `[release]`
#[derive(Clone, Debug)]
pub struct Release {
    /// Messages of one claim, 1 to 500.
    pub batch: usize,
    /// How long a claim holds before another replica may take the message, at least 2 s.
    pub lease: Duration,
    /// Messages claimed and not yet settled by one replica, at least `batch`.
    pub max_in_flight: usize,
    /// Messages per second of one replica; `None` is no limit.
    pub rate_limit: Option<NonZeroU32>,
    /// What becomes of a message that no queue wants.
    pub on_unroutable: OnUnroutable,
    /// Dead messages of one destination before no more releases end in a burial; `None` is no limit.
    pub dead_max: Option<NonZeroU32>,
    /// How a failed release is repeated.
    pub retry: Retry,
}

/// `release.on_unroutable`: what becomes of a message that no queue wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnUnroutable {
    /// It is postponed and tried again, as after any failed release.
    Retry,
    /// It is settled: right for a fanout that may have no subscribers.
    Drop,
}

/// `release.retry`
#[derive(Clone, Debug)]
pub struct Retry {
    /// Wait after the first failure, above 0; doubled after each further one.
    pub first: Duration,
    /// The longest wait, at least `first`.
    pub max: Duration,
    /// Releases tried before the message is buried, at least 1.
    pub attempts: u32,
}

/// `[amqp]`
#[derive(Clone, Debug)]
pub struct Amqp {
    /// The addresses to try, in the order given, with the content of `password_file` in them.
    /// Never empty.
    pub nodes: Vec<Url>,
    /// The destinations: names of exchanges, unique. Empty when RabbitMQ is not served, or only by
    /// the proxy.
    pub exchanges: Vec<String>,
    /// Whether xdelay declares the capture topology; otherwise it only checks that it stands.
    pub declare: bool,
    /// The type of a capture exchange.
    pub front: Front,
}

/// `amqp.front`: the type of a capture exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// One hop; topic permissions do not apply to it.
    Headers,
    /// Two hops; topic permissions apply to delayed publishes too.
    Topic,
}

/// `[proxy]`
#[derive(Clone, Debug)]
pub struct Proxy {
    /// Address and port that producers connect to.
    pub listen: SocketAddr,
    /// Which exchanges are delayed: names or patterns, in which `*` stands for anything. One that
    /// begins with `!` excludes. Never only those.
    pub exchanges: Vec<String>,
    /// Most connections at once, 1 to 1000000.
    pub max_connections: usize,
    /// How long a client may take until its connection is open, at most an hour.
    pub handshake_timeout: Duration,
    /// Where any are listed, only these may connect.
    pub allow: Vec<Network>,
    /// These may not connect.
    pub deny: Vec<Network>,
    /// Whether `guest` may log in from another host.
    pub remote_guest: bool,
    /// TLS towards clients, where they are to use it.
    pub tls: Option<ProxyTls>,
    /// TLS towards the broker, for nodes that are `amqps://`. Without a CA each node's own counts.
    pub upstream: TlsFiles,
    /// Whether the broker is told who the client is, in the PROXY protocol.
    pub proxy_protocol: bool,
}

/// What clients of the proxy see.
#[derive(Clone, Debug)]
pub struct ProxyTls {
    /// Who it is.
    pub identity: Identity,
    /// Whose certificates clients must show, if any.
    pub client_ca: Option<PathBuf>,
}

/// `[kafka]`
#[derive(Clone, Debug)]
pub struct Kafka {
    /// `host:port`, several separated by commas.
    pub brokers: String,
    /// What is captured.
    pub topics: Topics,
    /// The consumer group of all replicas.
    pub group: String,
    /// Whether a missing capture topic is created.
    pub create_topics: bool,
    /// Whether a record is released to the partition number it was captured on.
    pub preserve_partition: bool,
    /// Properties of librdkafka by their full names, files already read. Any of them may be secret.
    pub properties: BTreeMap<String, Secret>,
    /// What to do about a store that has lost its marks; from the command line alone.
    pub from: Option<From>,
}

/// `kafka.topics`
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topics {
    /// These destinations, unique. Empty when Kafka is not served.
    Named(Vec<String>),
    /// Every topic whose name begins with `xdelay.`, new ones included.
    All,
}

impl Topics {
    /// Whether Kafka is served at all.
    pub fn is_on(&self) -> bool {
        !matches!(self, Self::Named(names) if names.is_empty())
    }
}

/// `--from`: where to read on when the store has lost how far it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// From the first record the topic still has: nothing that it has is lost, and what was
    /// released since is released again.
    Topic,
    /// From where the consumer group stands: nothing is released twice, and what was parked in
    /// the store that is gone stays lost.
    Group,
}

/// `[admin]`
#[derive(Clone, Debug)]
pub struct Admin {
    /// Address and port of the admin API.
    pub listen: SocketAddr,
    /// What a request must carry; always present when `listen` is not loopback.
    pub token: Option<Secret>,
    /// What a request that only looks may carry instead.
    pub read_token: Option<Secret>,
    /// Whether bodies are shown.
    pub previews: bool,
}
