//! RabbitMQ, over AMQP 0-9-1.
//!
//! Three connections. `intake` and `release` are [our own](connection): the first consumes capture
//! queues ([`consumer`], on a [`subscriber`], acked in order by [`ledger`]), the second publishes to
//! the original exchanges ([`lane`], on a [`publisher`]). `declare` is lapin's ([`client`]). What
//! stands in the broker is [`topology`]; what is read from a delivery is [`capture`], and what a
//! released message looks like is [`outgoing`].

mod capture;
mod captures;
mod client;
mod connection;
mod consumer;
mod declare;
pub mod definitions;
mod intake;
mod lane;
mod ledger;
mod link;
mod node;
mod outgoing;
pub(super) mod portrait;
mod probe;
mod properties;
mod publisher;
mod refusal;
mod release;
pub mod script;
#[cfg(test)]
mod scripted;
pub(crate) mod stamp;
mod subscriber;
mod term;
mod topology;
mod window;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use tokio::sync::mpsc;

use self::capture::Reader;
pub use self::captures::Capture;
use self::captures::Captures;
use self::connection::Identity;
use self::consumer::{Shared, queues};
use self::declare::Mode;
use self::intake::AmqpIntake;
use self::link::{ANSWER_WITHIN, Link};
use self::probe::probe;
use self::refusal::Blame;
use self::release::Releaser;
use super::{Broker, Intake, NotReleased, Released};
use crate::clock::{StoreClock, millis};
use crate::config::{Config, Front};
use crate::finding::Finding;
use crate::health::Health;
use crate::message::{BrokerKind, Destination};
use crate::metrics::Metrics;
use crate::store::{Lease, Store};

/// Deliveries on their way from consumers to the intake loop.
const CHANNEL_BOUND: usize = 512;

/// One RabbitMQ, by its nodes.
pub struct AmqpBroker {
    consumers: Arc<Shared>,
    releaser: Releaser,
    /// Exchanges that took a probe. One is not probed again while it stands, for every probe
    /// leaves a line in the broker's log.
    writable: Mutex<HashSet<String>>,
    /// Who the broker is, as long as it stays connected.
    identity: Mutex<Option<Identity>>,
}

impl AmqpBroker {
    /// Connects to nothing yet.
    pub fn new(
        config: &Config,
        store: Arc<dyn Store>,
        clock: Arc<StoreClock>,
        health: &Arc<Health>,
        metrics: &Arc<Metrics>,
    ) -> Self {
        let nodes = || config.amqp.nodes.clone();
        let declaring = Link::new("declare", nodes(), Arc::clone(health), Arc::clone(metrics));
        let intake = Link::new("intake", nodes(), Arc::clone(health), Arc::clone(metrics));
        let release = Link::new("release", nodes(), Arc::clone(health), Arc::clone(metrics));
        for queue in queues(&config.amqp.exchanges) {
            health.expect(&queue.subject());
        }
        let consumers = Shared {
            declaring,
            link: intake,
            reader: Reader { clock, max_ms: millis(config.delay.max) },
            front: config.amqp.front,
            mode: if config.amqp.declare { Mode::Declare } else { Mode::Look },
            prefetch: config.intake.prefetch,
            memory: config.intake.memory,
            captures: Captures::new(&config.amqp.exchanges),
            store,
            health: Arc::clone(health),
        };
        let on_unroutable = config.release.on_unroutable;
        Self {
            consumers: Arc::new(consumers),
            releaser: Releaser::new(release, on_unroutable, Arc::clone(metrics)),
            writable: Mutex::default(),
            identity: Mutex::default(),
        }
    }

    /// Captures for `exchange` from now on, unless it does already.
    ///
    /// # Errors
    /// Why it cannot, in words for a producer: the broker is away, or refuses us something.
    pub async fn capture(&self, exchange: &str) -> Result<Capture, String> {
        match probe(&self.releaser.link, exchange).await {
            Ok(()) => {}
            Err(Blame::Destination(why)) if why.starts_with("NOT_FOUND") => {
                return Ok(Capture::NoDestination);
            }
            Err(
                Blame::Destination(why)
                | Blame::Connection(why)
                | Blame::Confirms(why)
                | Blame::Message(why),
            ) => return Err(why),
        }
        let Shared { declaring, front, mode, captures, .. } = &*self.consumers;
        let declared = declare::capture(declaring, exchange, *front, *mode).await;
        declared.map_err(|finding| finding.detail)?;
        captures.add(exchange);
        Ok(Capture::Stands)
    }

    /// Has the broker remember that `exchange` was declared as the delayed-message plugin's.
    ///
    /// # Errors
    /// Why it does not.
    pub async fn mark(&self, exchange: &str) -> Result<(), String> {
        if self.consumers.mode == Mode::Look {
            return Err("amqp.declare = false".to_owned());
        }
        declare::mark(&self.consumers.declaring, exchange).await
    }

    /// Whether it remembers that.
    pub async fn is_marked(&self, exchange: &str) -> bool {
        declare::is_marked(&self.consumers.declaring, exchange).await
    }

    /// Consumes again what was captured for `exchange` before, such as by an earlier process.
    pub fn resume(&self, exchange: &str) {
        self.consumers.captures.add(exchange);
    }

    /// Whether `exchange` is one of `amqp.exchanges`.
    pub fn is_configured(&self, exchange: &str) -> bool {
        self.consumers.captures.is_configured(exchange)
    }

    /// Who the broker is; asked once for each connection.
    async fn known_identity(&self) -> Result<Identity, String> {
        let known = || self.identity.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(identity) = known().clone() {
            return Ok(identity);
        }
        let (identity, _) = self.identify().await?;
        *known() = Some(identity.clone());
        Ok(identity)
    }

    /// Asks each node in turn.
    async fn identify(&self) -> Result<(Identity, String), String> {
        let mut why = "no node is named".to_owned();
        for node in self.consumers.link.nodes() {
            match connection::identify(&node, ANSWER_WITHIN).await {
                Ok(identity) => return Ok((identity, node.uri.vhost)),
                Err(error) => why = node::words(&error),
            }
        }
        Err(why)
    }

    fn check_version(identity: &Identity) -> Finding {
        let Identity { product, version, .. } = identity;
        let found = format!("{product} {version}");
        let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
        let version: (u32, u32) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        if product == "RabbitMQ" && version < (3, 10) {
            let why = "3.10 or later is needed: earlier ones cannot tell delayed messages apart";
            return Finding::bad("rabbitmq version", format!("{found}: {why}"));
        }
        Finding::good("rabbitmq version", found)
    }

    async fn check_capture(&self, exchange: &str) -> Finding {
        let Shared { declaring, front, mode, .. } = &*self.consumers;
        let subject = format!("capture of {exchange}");
        match declare::capture(declaring, exchange, *front, *mode).await {
            Err(finding) => finding,
            Ok(()) if *front == Front::Headers => {
                let note = "stands; a headers front bypasses topic permissions (amqp.front)";
                Finding::good(subject, note)
            }
            Ok(()) => Finding::good(subject, "stands"),
        }
    }

    async fn check_destination(&self, exchange: &str) -> Finding {
        let subject = format!("exchange {exchange}");
        let takes = "takes messages from this user";
        let writable = || self.writable.lock().unwrap_or_else(PoisonError::into_inner);
        let known = writable().contains(exchange);
        if known && declare::exists(&self.consumers.declaring, exchange).await {
            return Finding::good(subject, takes);
        }
        writable().remove(exchange);
        match probe(&self.releaser.link, exchange).await {
            Ok(()) => {
                writable().insert(exchange.to_owned());
                Finding::good(subject, takes)
            }
            Err(Blame::Connection(why) | Blame::Confirms(why)) => Finding::bad(subject, why),
            Err(Blame::Destination(why) | Blame::Message(why)) => Finding::bad(
                subject,
                format!(
                    "{why}. Undelayed messages to xdelay.{exchange} are lost, delayed ones wait: declare it, not internal, and grant this user `write` on it"
                ),
            ),
        }
    }
}

#[async_trait]
impl Broker for AmqpBroker {
    fn kind(&self) -> BrokerKind {
        BrokerKind::Amqp
    }

    fn destinations(&self) -> Vec<Destination> {
        let names = self.consumers.captures.names();
        names.iter().map(|name| Destination::amqp(name)).collect()
    }

    async fn identity(&self) -> Result<String, String> {
        let (broker, vhost) = self.identify().await?;
        Ok(format!("rabbitmq cluster {} vhost {vhost}", broker.cluster))
    }

    async fn intake(&self) -> Box<dyn Intake> {
        let (sender, deliveries) = mpsc::channel(CHANNEL_BOUND);
        Box::new(AmqpIntake::start(Arc::clone(&self.consumers), sender, deliveries))
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
        let mut findings = Vec::new();
        let declaring = self.consumers.declaring.connection().await.map(drop);
        let intake = self.consumers.link.connection().await.map(drop);
        let release = self.releaser.link.connection().await.map(drop);
        if let Err(why) = declaring.and(intake).and(release) {
            *self.identity.lock().unwrap_or_else(PoisonError::into_inner) = None;
            return vec![Finding::bad("rabbitmq", why)];
        }
        findings.push(Finding::good("rabbitmq", "connected: declare, intake and release"));
        findings.push(match self.known_identity().await {
            Ok(identity) => Self::check_version(&identity),
            Err(why) => Finding::warning("rabbitmq version", why),
        });
        let captures = &self.consumers.captures;
        for exchange in &captures.names() {
            // One that turned up while running may be gone again, which is nobody's mistake.
            if captures.is_configured(exchange) {
                findings.push(self.check_destination(exchange).await);
            }
            findings.push(self.check_capture(exchange).await);
        }
        findings
    }

    async fn close(&self) {
        self.releaser.link.close().await;
        self.consumers.link.close().await;
        self.consumers.declaring.close().await;
    }
}
