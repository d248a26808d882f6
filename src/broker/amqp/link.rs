//! A connection to one of RabbitMQ's nodes that is made when needed and replaced when it is lost.
//!
//! Declaring, intake and release each have a link of their own: a broker that is short of memory
//! blocks a publishing connection, and acks on the same one would hang with it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lapin::Connection;
use tokio::sync::{Mutex as AsyncMutex, watch};

use super::node::Node;
use crate::config::Url;
use crate::finding::Finding;
use crate::health::Health;
use crate::metrics::Metrics;

/// How long any single exchange with the broker may take: connecting, declaring, opening.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// What the broker last said of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Connected,
    /// Publishing is blocked, for this reason.
    Blocked(String),
    /// It is gone, for this reason.
    Lost(String),
}

/// A connection that a link can keep.
#[async_trait]
pub(super) trait Connect: Sized + Send + Sync + 'static {
    /// Connects to one node; `name` is shown by the broker's tools.
    ///
    /// # Errors
    /// Why not, in words without secrets.
    async fn connect(node: Node, name: &str) -> Result<Self, String>;

    fn is_connected(&self) -> bool;

    /// What is said of it from now on.
    fn standing(&self) -> watch::Receiver<Standing>;

    /// Says goodbye.
    async fn close(&self);
}

/// Keeps one connection.
pub(super) struct Link<C = Connection> {
    name: &'static str,
    nodes: Vec<Url>,
    live: AsyncMutex<Option<Arc<C>>>,
    latest: Arc<Mutex<Latest>>,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
}

/// What is known of the latest connection.
#[derive(Default)]
struct Latest {
    /// Which one it is: an earlier one has nothing to say any more.
    number: u64,
    /// Why it is blocked, while it is.
    blocked: Option<String>,
}

impl<C: Connect> Link<C> {
    pub(super) fn new(
        name: &'static str,
        nodes: Vec<Url>,
        health: Arc<Health>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { name, nodes, live: AsyncMutex::new(None), latest: Arc::default(), health, metrics }
    }

    /// The live connection; tries each node once when there is none.
    ///
    /// # Errors
    /// Why no node took us, in words without secrets.
    pub(super) async fn connection(&self) -> Result<Arc<C>, String> {
        let mut live = self.live.lock().await;
        if let Some(connection) = live.as_ref()
            && connection.is_connected()
        {
            return Ok(Arc::clone(connection));
        }
        let again = live.take().is_some();
        let connection = match self.connect_to_any().await {
            Ok(connection) => Arc::new(connection),
            Err(why) => {
                self.health.report(Finding::bad(self.subject(), why.clone()));
                return Err(why);
            }
        };
        if again {
            self.metrics.reconnected(self.name);
        }
        let number = {
            let mut latest = lock(&self.latest);
            *latest = Latest { number: latest.number + 1, blocked: None };
            self.health.report(Finding::good(self.subject(), "connected"));
            latest.number
        };
        self.watch(connection.standing(), number);
        *live = Some(Arc::clone(&connection));
        Ok(connection)
    }

    /// Why the broker blocks this connection, while it does.
    pub(super) fn why_blocked(&self) -> Option<String> {
        lock(&self.latest).blocked.clone()
    }

    /// The nodes to try, for those who connect by themselves.
    pub(super) fn nodes(&self) -> impl Iterator<Item = Node> + '_ {
        self.nodes.iter().filter_map(|url| Node::of(url).ok())
    }

    /// Ends the connection, if there is one.
    pub(super) async fn close(&self) {
        if let Some(connection) = self.live.lock().await.take() {
            connection.close().await;
        }
    }

    async fn connect_to_any(&self) -> Result<C, String> {
        let name = format!("xdelay {}", self.name);
        let mut whys = Vec::new();
        for node in &self.nodes {
            let connected = async { C::connect(Node::of(node)?, &name).await };
            match connected.await {
                Ok(connection) => return Ok(connection),
                Err(why) => whys.push(format!("{node}: {why}")),
            }
        }
        Err(whys.join("; "))
    }

    /// Reports what the broker says of a connection for as long as it is the latest.
    fn watch(&self, mut standing: watch::Receiver<Standing>, number: u64) {
        let (latest, health) = (Arc::clone(&self.latest), Arc::clone(&self.health));
        let subject = self.subject();
        tokio::spawn(async move {
            while standing.changed().await.is_ok() {
                let said = standing.borrow_and_update().clone();
                let mut latest = lock(&latest);
                if latest.number != number {
                    break;
                }
                let (blocked, finding) = match said {
                    Standing::Connected => (None, Finding::good(&*subject, "connected")),
                    Standing::Lost(why) => (None, Finding::bad(&*subject, format!("lost: {why}"))),
                    Standing::Blocked(why) => {
                        let finding =
                            Finding::bad(&*subject, format!("the broker blocks it: {why}"));
                        (Some(why), finding)
                    }
                };
                latest.blocked = blocked;
                health.report(finding);
            }
        });
    }

    fn subject(&self) -> String {
        format!("rabbitmq {}", self.name)
    }
}

fn lock(latest: &Mutex<Latest>) -> MutexGuard<'_, Latest> {
    latest.lock().unwrap_or_else(PoisonError::into_inner)
}
