//! Kafka, with librdkafka.
//!
//! One thread reads the capture topics as a member of a group ([`consumer`], [`group`]), begins
//! each partition where the store's mark stands ([`begin`]) and tells the group how far everything
//! is safe ([`ledger`]). One idempotent producer writes to the original topics ([`release`]). What
//! stands in the cluster is [`topology`]; what is read from a record is [`capture`], and what a
//! released one looks like is [`outgoing`].

mod begin;
mod capture;
mod check;
mod consumer;
mod group;
mod intake;
mod ledger;
mod link;
mod membership;
mod outgoing;
mod partition;
mod properties;
mod refusal;
mod release;
mod topology;

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use async_trait::async_trait;
use rdkafka::ClientConfig;
use rdkafka::admin::AdminClient;
use tokio::runtime::Handle;

use self::capture::Reader;
pub use self::capture::panic_is_expected;
use self::consumer::Consumer;
use self::intake::KafkaIntake;
use self::link::{Link, Standing};
use self::release::Releaser;
pub use self::topology::commands;
use super::{Broker, Intake, NotReleased, Released};
use crate::clock::{StoreClock, millis};
use crate::config::{Config, From, Topics};
use crate::finding::Finding;
use crate::health::Health;
use crate::message::{BrokerKind, Destination};
use crate::metrics::Metrics;
use crate::store::{Lease, Store};

/// Most records of one batch on its way to the intake loop.
const BATCH_MAX: usize = 500;
/// Batches that may be under way at once: waiting, in hand, and being parked.
const BATCHES: usize = 8;

/// One Kafka cluster.
pub struct KafkaBroker {
    topics: Topics,
    brokers: String,
    create_topics: bool,
    from: Option<From>,
    releaser: Releaser,
    /// For clients that neither read nor write.
    config: ClientConfig,
    admin: OnceLock<AdminClient<Standing>>,
    reading: ClientConfig,
    batch: (usize, usize),
    reader: Reader,
    store: Arc<dyn Store>,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
}

impl KafkaBroker {
    /// Connects to nothing yet.
    ///
    /// # Errors
    /// Which of `[kafka.properties]` librdkafka does not take.
    pub fn new(
        config: &Config,
        store: Arc<dyn Store>,
        clock: Arc<StoreClock>,
        health: &Arc<Health>,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, String> {
        let (reading, writing) = (properties::consumer(config), properties::producer(config));
        properties::check(&reading)?;
        properties::check(&writing)?;
        health.expect(membership::SUBJECT);
        let link = Link::new(writing.clone(), Arc::clone(metrics));
        let memory = usize::try_from(config.intake.memory).unwrap_or(usize::MAX);
        let prefetch = usize::from(config.intake.prefetch);
        Ok(Self {
            topics: config.kafka.topics.clone(),
            brokers: config.kafka.brokers.clone(),
            create_topics: config.kafka.create_topics,
            from: config.kafka.from,
            releaser: Releaser::new(link, config.kafka.preserve_partition),
            config: writing,
            admin: OnceLock::new(),
            reading,
            batch: ((prefetch / BATCHES).clamp(1, BATCH_MAX), memory / BATCHES),
            reader: Reader { clock, max_ms: millis(config.delay.max) },
            store,
            health: Arc::clone(health),
            metrics: Arc::clone(metrics),
        })
    }
}

#[async_trait]
impl Broker for KafkaBroker {
    fn kind(&self) -> BrokerKind {
        BrokerKind::Kafka
    }

    fn destinations(&self) -> Vec<Destination> {
        match &self.topics {
            Topics::Named(names) => names.iter().map(|name| Destination::kafka(name)).collect(),
            // Those that are met.
            Topics::All => Vec::new(),
        }
    }

    async fn identity(&self) -> Result<String, String> {
        Ok(format!("kafka cluster {}", self.releaser.link.cluster().await?))
    }

    async fn intake(&self) -> Box<dyn Intake> {
        let consumer = Consumer {
            config: self.reading.clone(),
            runtime: Handle::current(),
            topics: self.topics.clone(),
            from: self.from,
            store: Arc::clone(&self.store),
            reader: self.reader.clone(),
            health: Arc::clone(&self.health),
            metrics: Arc::clone(&self.metrics),
            batch: self.batch,
        };
        Box::new(KafkaIntake::start(consumer))
    }

    async fn release(
        &self,
        destination: &Destination,
        batch: &[Lease],
        deadline: Instant,
    ) -> Vec<Result<Released, NotReleased>> {
        self.releaser.release(destination, batch, deadline).await
    }

    async fn check(&self) -> Vec<Finding> {
        self.look().await
    }

    async fn close(&self) {
        self.releaser.link.close();
    }
}
