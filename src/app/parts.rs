//! All parts of a running xdelay, made from its configuration.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::watch::Watched;
use crate::admin;
use crate::broker::Broker;
use crate::broker::amqp::AmqpBroker;
use crate::clock::{StoreClock, millis};
use crate::config::{self, Config};
use crate::destinations::Destinations;
use crate::health::{Health, START};
use crate::metrics::Metrics;
use crate::release::{self, Limiter};
use crate::shutdown::Shutdown;
use crate::store::Steer;
use crate::store::embedded::EmbeddedStore;
use crate::store::redis::{RedisStore, Settings};

/// Shared by everything that runs.
#[derive(Clone)]
pub struct Parts {
    pub(super) broker: Arc<dyn Broker>,
    pub(super) amqp: Arc<AmqpBroker>,
    pub(super) clock: Arc<StoreClock>,
    pub(super) store: Arc<dyn Steer>,
    pub(super) destinations: Arc<Destinations>,
    pub(super) health: Arc<Health>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) releasing: Arc<release::Shared>,
}

impl Parts {
    /// Makes them all; nothing connects yet.
    ///
    /// # Errors
    /// When the store cannot be used: its address makes no sense, or its file is not ours.
    pub fn new(config: &Config) -> anyhow::Result<Self> {
        let clock = Arc::new(StoreClock::new());
        let health = Arc::new(Health::default());
        health.expect(START);
        let metrics = Arc::new(Metrics::new(Arc::clone(&clock)));
        let store = store(config, &clock)?;
        let amqp = Arc::new(AmqpBroker::new(config, Arc::clone(&clock), &health, &metrics));
        let broker: Arc<dyn Broker> = Arc::<AmqpBroker>::clone(&amqp);
        let releasing = Arc::new(release::Shared {
            broker: Arc::clone(&broker),
            store: Arc::clone(&store) as _,
            settings: config.release.clone(),
            claim_bytes: config.intake.memory / 4,
            in_flight: Arc::new(Semaphore::new(config.release.max_in_flight)),
            limiter: Limiter::new(config.release.rate_limit),
            clock: Arc::clone(&clock),
            health: Arc::clone(&health),
        });
        Ok(Self {
            destinations: Arc::new(Destinations::new(Arc::clone(&store) as _)),
            broker,
            amqp,
            clock,
            store,
            health,
            metrics,
            releasing,
        })
    }

    /// Makes every destination known to the store, and binds its namespace to this broker.
    ///
    /// # Errors
    /// What is away, or that the namespace is another's.
    pub async fn open(&self) -> Result<(), String> {
        let configured = self.broker.destinations();
        self.destinations.open_all(&configured).await.map_err(|error| error.to_string())?;
        let broker = self.broker.identity().await.map_err(|why| format!("rabbitmq: {why}"))?;
        let bound = self.store.bind(self.broker.kind(), &broker).await;
        bound.map_err(|error| error.to_string())
    }

    /// For `xdelay check`: looks at store and broker.
    pub fn watched(&self) -> Watched {
        Watched {
            broker: Arc::clone(&self.broker),
            store: Arc::clone(&self.store) as _,
            health: Arc::clone(&self.health),
        }
    }

    pub(super) fn admin_state(&self, config: &Config, shutdown: Shutdown) -> Arc<admin::State> {
        Arc::new(admin::State {
            health: Arc::clone(&self.health),
            metrics: Arc::clone(&self.metrics),
            store: Arc::clone(&self.store),
            destinations: Arc::clone(&self.destinations),
            broker: Arc::clone(&self.broker),
            clock: Arc::clone(&self.clock),
            max_delay_ms: millis(config.delay.max),
            token: config.admin.token.clone(),
            read_token: config.admin.read_token.clone(),
            previews: config.admin.previews,
            loopback: config.admin.listen.ip().to_canonical().is_loopback(),
            shutdown,
            turns: Semaphore::new(admin::TURNS),
            watchers: Arc::new(Semaphore::new(admin::WATCHERS)),
        })
    }
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
    let settings = Settings {
        url: redis.url.expose(),
        namespace: redis.namespace.clone(),
        buckets: u32::from(redis.buckets),
        durability: redis.durability,
        min_replicas: redis.min_replicas,
    };
    Ok(Arc::new(RedisStore::new(settings, clock)?))
}
