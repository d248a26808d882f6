//! All parts of a running xdelay, made from its configuration.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::watch::Watched;
use crate::admin;
use crate::broker::Broker;
use crate::broker::amqp::AmqpBroker;
use crate::broker::kafka::KafkaBroker;
use crate::clock::StoreClock;
use crate::config::{self, Config};
use crate::destinations::Destinations;
use crate::health::{Health, START};
use crate::message::BrokerKind;
use crate::metrics::Metrics;
use crate::release::{self, Limiter};
use crate::store::Store;
use crate::store::embedded::EmbeddedStore;
use crate::store::redis::{RedisStore, Settings};

/// Shared by everything that runs.
#[derive(Clone)]
pub struct Parts {
    pub(super) brokers: Vec<Arc<dyn Broker>>,
    pub(super) store: Arc<dyn Store>,
    pub(super) destinations: Arc<Destinations>,
    pub(super) health: Arc<Health>,
    pub(super) metrics: Arc<Metrics>,
    /// What the release loops of each broker share, in the order of `brokers`.
    pub(super) releasing: Vec<Arc<release::Shared>>,
}

impl Parts {
    /// Makes them all; nothing connects yet.
    ///
    /// # Errors
    /// When the store cannot be used, its address makes no sense or its file is not ours, or when
    /// librdkafka does not take its properties.
    pub fn new(config: &Config) -> anyhow::Result<Self> {
        let clock = Arc::new(StoreClock::new());
        let health = Arc::new(Health::default());
        health.expect(START);
        let metrics = Arc::new(Metrics::default());
        let store = store(config, &clock)?;
        let brokers = brokers(config, &store, &clock, &health, &metrics)?;
        let in_flight = Arc::new(Semaphore::new(config.release.max_in_flight));
        let limiter = Arc::new(Limiter::new(config.release.rate_limit));
        let releasing = brokers.iter().map(|broker| {
            Arc::new(release::Shared {
                broker: Arc::clone(broker),
                store: Arc::clone(&store),
                settings: config.release.clone(),
                claim_bytes: config.intake.memory / 4,
                in_flight: Arc::clone(&in_flight),
                limiter: Arc::clone(&limiter),
                clock: Arc::clone(&clock),
                health: Arc::clone(&health),
            })
        });
        Ok(Self {
            destinations: Arc::new(Destinations::new(Arc::clone(&store))),
            releasing: releasing.collect(),
            brokers,
            store,
            health,
            metrics,
        })
    }

    /// Makes every destination known to the store.
    ///
    /// # Errors
    /// That the store is away, or the namespace is laid out otherwise.
    pub async fn open(&self) -> Result<(), String> {
        let configured: Vec<_> =
            self.brokers.iter().flat_map(|broker| broker.destinations()).collect();
        self.destinations.open_all(&configured).await.map_err(|error| error.to_string())
    }

    /// Binds the store's namespace to these brokers.
    ///
    /// # Errors
    /// What is away, or that the namespace is another's.
    pub async fn bind_all(&self) -> Result<(), String> {
        for broker in &self.brokers {
            self.bind(&**broker).await?;
        }
        Ok(())
    }

    pub(super) async fn bind(&self, broker: &dyn Broker) -> Result<(), String> {
        let name = match broker.kind() {
            BrokerKind::Amqp => "rabbitmq",
            BrokerKind::Kafka => "kafka",
        };
        let identity = broker.identity().await.map_err(|why| format!("{name}: {why}"))?;
        let bound = self.store.bind(broker.kind(), &identity).await;
        bound.map_err(|error| error.to_string())
    }

    /// For `xdelay check`: looks at store and brokers.
    pub fn watched(&self) -> Watched {
        Watched {
            brokers: self.brokers.clone(),
            store: Arc::clone(&self.store),
            health: Arc::clone(&self.health),
        }
    }

    pub(super) fn admin_state(&self, config: &Config) -> Arc<admin::State> {
        Arc::new(admin::State {
            health: Arc::clone(&self.health),
            metrics: Arc::clone(&self.metrics),
            store: Arc::clone(&self.store),
            destinations: Arc::clone(&self.destinations),
            token: config.admin.token.clone(),
        })
    }
}

/// Those that have something to capture.
fn brokers(
    config: &Config,
    store: &Arc<dyn Store>,
    clock: &Arc<StoreClock>,
    health: &Arc<Health>,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<Vec<Arc<dyn Broker>>> {
    let mut brokers: Vec<Arc<dyn Broker>> = Vec::new();
    if !config.amqp.exchanges.is_empty() {
        brokers.push(Arc::new(AmqpBroker::new(config, Arc::clone(clock), health, metrics)));
    }
    if config.kafka.topics.is_on() {
        let (store, clock) = (Arc::clone(store), Arc::clone(clock));
        let kafka = KafkaBroker::new(config, store, clock, health, metrics);
        brokers.push(Arc::new(kafka.map_err(anyhow::Error::msg)?));
    }
    Ok(brokers)
}

fn store(config: &Config, clock: &Arc<StoreClock>) -> anyhow::Result<Arc<dyn Store>> {
    let clock = Arc::clone(clock);
    let redis = match &config.store {
        config::Store::Redis(redis) => redis,
        config::Store::Embedded(path) => {
            return Ok(Arc::new(EmbeddedStore::open(path, clock)?));
        }
    };
    let settings = Settings {
        url: redis.url.expose(),
        namespace: redis.namespace.clone(),
        buckets: u32::from(redis.buckets),
        durability: redis.durability,
        min_replicas: redis.min_replicas,
    };
    Ok(Arc::new(RedisStore::new(settings, clock)?))
}
