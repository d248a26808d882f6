//! A connection to one of RabbitMQ's nodes that is made when needed and replaced when it is lost.
//!
//! Intake and release each have a link of their own: a broker that is short of memory blocks a
//! publishing connection, and acks on the same one would hang with it. lapin's own recovery is
//! not used: it is silent for as long as it lasts, and it hides that delivery tags are void.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use lapin::uri::AMQPUri;
use lapin::{Channel, Connection, ConnectionBuilder, ConnectionProperties, Event};
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::timeout;

use crate::config::Url;
use crate::finding::Finding;
use crate::health::Health;
use crate::metrics::Metrics;

/// How long any single exchange with the broker may take: connecting, declaring, opening.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Seconds between heartbeats where the URL does not say otherwise.
const HEARTBEAT_SECONDS: u16 = 10;

/// What the broker says of the connection.
#[derive(Default)]
struct Standing {
    /// Which connection it is about: an earlier one has nothing to say any more.
    number: u64,
    /// Why it is blocked, while it is.
    blocked: Option<String>,
}

/// Keeps one connection.
pub(super) struct Link {
    name: &'static str,
    nodes: Vec<Url>,
    live: AsyncMutex<Option<Arc<Connection>>>,
    standing: Arc<Mutex<Standing>>,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
}

impl Link {
    pub(super) fn new(
        name: &'static str,
        nodes: Vec<Url>,
        health: Arc<Health>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { name, nodes, live: AsyncMutex::new(None), standing: Arc::default(), health, metrics }
    }

    /// The live connection; tries each node once when there is none.
    ///
    /// # Errors
    /// Why no node took us, in words without secrets.
    pub(super) async fn connection(&self) -> Result<Arc<Connection>, String> {
        let mut live = self.live.lock().await;
        if let Some(connection) = live.as_ref()
            && connection.status().connected()
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
            let mut standing = standing(&self.standing);
            *standing = Standing { number: standing.number + 1, blocked: None };
            self.health.report(Finding::good(self.subject(), "connected"));
            standing.number
        };
        self.watch(&connection, number);
        *live = Some(Arc::clone(&connection));
        Ok(connection)
    }

    /// A new channel on the live connection.
    pub(super) async fn channel(&self) -> Result<Channel, String> {
        let connection = self.connection().await?;
        answer("opening a channel", connection.create_channel()).await
    }

    /// Why the broker blocks this connection, while it does.
    pub(super) fn why_blocked(&self) -> Option<String> {
        standing(&self.standing).blocked.clone()
    }

    /// The nodes to try, for those who connect by themselves.
    pub(super) fn uris(&self) -> impl Iterator<Item = AMQPUri> + '_ {
        self.nodes.iter().filter_map(|node| uri(node).ok())
    }

    /// Ends the connection, if there is one.
    pub(super) async fn close(&self) {
        if let Some(connection) = self.live.lock().await.take() {
            let _ = answer("closing", connection.close(200, "bye".into())).await;
        }
    }

    async fn connect_to_any(&self) -> Result<Connection, String> {
        let mut whys = Vec::new();
        for node in &self.nodes {
            match self.connect(node).await {
                Ok(connection) => return Ok(connection),
                Err(why) => whys.push(format!("{node}: {why}")),
            }
        }
        Err(whys.join("; "))
    }

    async fn connect(&self, node: &Url) -> Result<Connection, String> {
        let name = format!("xdelay {}", self.name);
        let properties = ConnectionProperties::default().with_connection_name(name.as_str().into());
        let builder = ConnectionBuilder::new()
            .map_err(|error| error.to_string())?
            .with_uri(uri(node)?)
            .with_properties(properties);
        answer("connecting", builder.connect()).await
    }

    /// Reports what the broker says of this connection for as long as it lasts.
    fn watch(&self, connection: &Connection, number: u64) {
        let mut events = Box::pin(connection.events_listener());
        let (shared, health) = (Arc::clone(&self.standing), Arc::clone(&self.health));
        let subject = self.subject();
        tokio::spawn(async move {
            while let Some(event) = events.next().await {
                let mut standing = standing(&shared);
                if standing.number != number {
                    break;
                }
                let finding = match event {
                    Event::ConnectionBlocked(why) => {
                        let blocked = format!("the broker blocks it: {why}");
                        standing.blocked = Some(why);
                        Finding::bad(&*subject, blocked)
                    }
                    Event::ConnectionUnblocked | Event::Connected => {
                        standing.blocked = None;
                        Finding::good(&*subject, "connected")
                    }
                    // A channel's error, which concerns whoever uses that channel.
                    Event::Error(error) if error.is_amqp_soft_error() => continue,
                    Event::Error(error) => Finding::bad(&*subject, format!("lost: {error}")),
                    _ => continue,
                };
                health.report(finding);
            }
        });
    }

    fn subject(&self) -> String {
        format!("rabbitmq {}", self.name)
    }
}

fn standing(shared: &Mutex<Standing>) -> MutexGuard<'_, Standing> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Awaits the broker's answer, but not for ever; errors come as text for people.
pub(super) async fn answer<T>(
    what: &str,
    call: impl Future<Output = lapin::Result<T>>,
) -> Result<T, String> {
    match timeout(ANSWER_WITHIN, call).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(format!("{what}: {error}")),
        Err(_) => Err(format!("{what}: no answer in {} s", ANSWER_WITHIN.as_secs())),
    }
}

fn uri(node: &Url) -> Result<AMQPUri, String> {
    let mut uri: AMQPUri = node.expose().parse().map_err(|why: String| {
        // The parser's text may quote the URL, and with it the password.
        let _ = why;
        "amqp.url cannot be read".to_owned()
    })?;
    uri.query.heartbeat.get_or_insert(HEARTBEAT_SECONDS);
    Ok(uri)
}
