//! All parts of a running xdelay, made from its configuration.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::watch::Watched;
use crate::admin;
use crate::broker::Broker;
use crate::broker::amqp::AmqpBroker;
use crate::broker::kafka::KafkaBroker;
use crate::clock::{StoreClock, millis};
use crate::config::{self, Config};
use crate::dead::DeadMax;
use crate::destinations::Destinations;
use crate::health::{Health, START};
use crate::message::BrokerKind;
use crate::metrics::Metrics;
use crate::release::{self, Limiter};
use crate::shutdown::Shutdown;
use crate::store::Steer;
use crate::store::embedded::EmbeddedStore;
use crate::store::redis::{RedisStore, Settings};
use crate::traces::Traces;

/// Shared by everything that runs.
#[derive(Clone)]
pub struct Parts {
    pub(super) brokers: Vec<Arc<dyn Broker>>,
    /// The one that the proxy stands before.
    pub(super) amqp: Option<Arc<AmqpBroker>>,
    pub(super) clock: Arc<StoreClock>,
    pub(super) store: Arc<dyn Steer>,
    pub(super) destinations: Arc<Destinations>,
    pub(super) health: Arc<Health>,
    pub(super) metrics: Arc<Metrics>,
    /// `release.dead_max`
    pub(super) dead_max: DeadMax,
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
        let traces = Traces::from_environment()?.map(Arc::new);
        let metrics = Arc::new(Metrics::new(Arc::clone(&clock)).with_traces(traces));
        let store = store(config, &clock)?;
        let amqp = amqp(config, &store, &clock, &health, &metrics);
        let kafka = kafka(config, &store, &clock, &health, &metrics)?;
        let all = amqp.clone().map(|it| it as Arc<dyn Broker>).into_iter();
        let brokers: Vec<_> = all.chain(kafka).collect();
        let in_flight = Arc::new(Semaphore::new(config.release.max_in_flight));
        let limiter = Arc::new(Limiter::new(config.release.rate_limit));
        let releasing = brokers.iter().map(|broker| {
            Arc::new(release::Shared {
                broker: Arc::clone(broker),
                store: Arc::clone(&store) as _,
                settings: config.release.clone(),
                claim_bytes: config.intake.memory / 4,
                in_flight: Arc::clone(&in_flight),
                limiter: Arc::clone(&limiter),
                clock: Arc::clone(&clock),
                health: Arc::clone(&health),
            })
        });
        Ok(Self {
            destinations: Arc::new(Destinations::new(Arc::clone(&store) as _)),
            releasing: releasing.collect(),
            brokers,
            amqp,
            clock: Arc::clone(&clock),
            store,
            health,
            metrics,
            dead_max: config.release.dead_max,
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

    /// Sends the last spans, where there are any.
    pub(super) async fn close_traces(&self) {
        let Some(traces) = self.metrics.traces().cloned() else { return };
        let _ = tokio::task::spawn_blocking(move || traces.close()).await;
    }

    /// For `xdelay check`: looks at store and brokers.
    pub fn watched(&self) -> Watched {
        Watched {
            brokers: self.brokers.clone(),
            store: Arc::clone(&self.store) as _,
            health: Arc::clone(&self.health),
            dead_max: self.dead_max,
        }
    }

    pub(super) fn admin_state(&self, config: &Config, shutdown: Shutdown) -> Arc<admin::State> {
        Arc::new(admin::State {
            health: Arc::clone(&self.health),
            metrics: Arc::clone(&self.metrics),
            store: Arc::clone(&self.store),
            destinations: Arc::clone(&self.destinations),
            brokers: self.brokers.clone(),
            clock: Arc::clone(&self.clock),
            dead_max: self.dead_max,
            max_delay_ms: millis(config.delay.max),
            token: config.admin.token.clone(),
            read_token: config.admin.read_token.clone(),
            previews: config.admin.previews,
            loopback: config.admin.listen.ip().to_canonical().is_loopback(),
            shutdown,
            turns: Semaphore::new(admin::TURNS),
            bodies: Semaphore::new(admin::BODIES),
            watchers: Arc::new(Semaphore::new(admin::WATCHERS)),
        })
    }
}

/// RabbitMQ, where it has something to capture.
fn amqp(
    config: &Config,
    store: &Arc<dyn Steer>,
    clock: &Arc<StoreClock>,
    health: &Arc<Health>,
    metrics: &Arc<Metrics>,
) -> Option<Arc<AmqpBroker>> {
    let served = !config.amqp.exchanges.is_empty() || config.proxy.is_some();
    let (store, clock) = (Arc::clone(store) as _, Arc::clone(clock));
    served.then(|| Arc::new(AmqpBroker::new(config, store, clock, health, metrics)))
}

/// Kafka, where it has something to capture.
fn kafka(
    config: &Config,
    store: &Arc<dyn Steer>,
    clock: &Arc<StoreClock>,
    health: &Arc<Health>,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<Option<Arc<dyn Broker>>> {
    if !config.kafka.topics.is_on() {
        return Ok(None);
    }
    let (store, clock) = (Arc::clone(store) as _, Arc::clone(clock));
    let kafka = KafkaBroker::new(config, store, clock, health, metrics);
    Ok(Some(Arc::new(kafka.map_err(anyhow::Error::msg)?)))
}

/// The store that the configuration names; nothing connects yet.
///
/// # Errors
/// When it cannot be used: its address makes no sense, or its file is not ours.
pub fn store(config: &Config, clock: &Arc<StoreClock>) -> anyhow::Result<Arc<dyn Steer>> {
    let clock = Arc::clone(clock);
    let redis = match &config.store {
        config::Store::Redis(redis) => redis,
        config::Store::Embedded(path) => {
            return Ok(Arc::new(EmbeddedStore::open(path, clock)?));
        }
    };
    Ok(Arc::new(redis_store(redis, clock)?))
}

/// The one in Redis; nothing connects yet.
///
/// # Errors
/// When its address makes no sense.
pub fn redis_store(redis: &config::Redis, clock: Arc<StoreClock>) -> anyhow::Result<RedisStore> {
    let settings = Settings {
        url: redis.url.expose(),
        namespace: redis.namespace.clone(),
        buckets: u32::from(redis.buckets),
        durability: redis.durability,
        min_replicas: redis.min_replicas,
    };
    Ok(RedisStore::new(settings, clock)?)
}
