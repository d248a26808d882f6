//! A port that producers connect to instead of to RabbitMQ, changing nothing else.
//!
//! For each client there is one connection to the broker, and every byte passes through as it is,
//! in both directions, but for this: a publish that is to be delayed goes to the capture exchange
//! `xdelay.<exchange>`, with a [stamp](crate::broker::amqp::stamp) on it. Because a publish is sent
//! elsewhere and never swallowed, all that a broker says of it stays true, one to one: confirms,
//! transactions, returns, errors. Nothing is kept here, so nothing can be lost here.
//!
//! Rights are the broker's own: the client publishes to `xdelay.<exchange>` under its own name.
//!
//! | file | holds |
//! | --- | --- |
//! | `frames`, `methods`, `content`, `table` | AMQP, as far as it is looked into |
//! | `declares` | what users of the delayed-message plugin declare |
//! | `requests`, `answers` | the walk over each direction: what is changed, and nothing else is |
//! | `destinations`, `pattern` | which exchanges are delayed for, and that their captures stand |
//! | `connection`, `pipe` | both directions of one client, bounded in memory and time |
//! | `upstream` | the broker's nodes |

mod answers;
mod connection;
mod content;
mod declares;
mod destinations;
mod frames;
mod methods;
mod pattern;
mod pipe;
mod requests;
mod table;
mod upstream;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use self::connection::{Connection, Desk, End};
use self::destinations::{Delayable, Fate};
use self::pattern::Patterns;
use self::requests::{Question, Rules};
use self::upstream::Upstream;
use crate::broker::amqp::AmqpBroker;
use crate::clock::{StoreClock, UnixMs, millis};
use crate::config::{self, Config};
use crate::destinations::Destinations;
use crate::finding::Finding;
use crate::health::Health;
use crate::shutdown::Shutdown;

/// What every client of AMQP 0-9-1 says first.
const PROTOCOL: [u8; 8] = *b"AMQP\0\0\x09\x01";
/// How long it is remembered that the broker could not be reached for a client.
const UNREACHABLE_REMEMBERED: Duration = Duration::from_secs(30);

/// The proxy, with its port.
pub struct Proxy {
    listener: TcpListener,
    settings: config::Proxy,
    shared: Arc<Shared>,
}

/// What all connections share.
struct Shared {
    delayable: Delayable,
    clock: Arc<StoreClock>,
    max_ms: u64,
    upstream: Upstream,
    health: Arc<Health>,
}

impl Proxy {
    /// Takes the port.
    ///
    /// # Errors
    /// When it cannot be had.
    pub async fn bind(
        settings: &config::Proxy,
        config: &Config,
        clock: Arc<StoreClock>,
        broker: Arc<AmqpBroker>,
        destinations: Arc<Destinations>,
        health: Arc<Health>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(settings.listen).await?;
        let upstream = Upstream::new(&config.amqp.nodes);
        let patterns = Patterns::new(&settings.exchanges);
        let delayable = Delayable::new(patterns, upstream.vhost(), broker, destinations);
        let max_ms = millis(config.delay.max);
        let shared = Arc::new(Shared { delayable, clock, max_ms, upstream, health });
        Ok(Self { listener, settings: settings.clone(), shared })
    }

    /// Consumes again what earlier processes captured for exchanges that came up while they ran.
    pub fn resume(settings: &config::Proxy, broker: &AmqpBroker, known: &Destinations) {
        let patterns = Patterns::new(&settings.exchanges);
        for destination in known.all() {
            let name = destination.name.as_bytes();
            if !name.starts_with(destinations::PREFIX.as_bytes()) && patterns.matches(name) {
                broker.resume(&destination.name);
            }
        }
    }

    /// Serves clients until shutdown, and then says goodbye to each.
    pub async fn run(self, mut shutdown: Shutdown) {
        let places = Arc::new(Semaphore::new(self.settings.max_connections));
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                Some(_) = connections.join_next() => continue,
                () = shutdown.requested() => break,
            };
            let (client, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Too many open files, most likely: the next moment may be better.
                    tracing::warn!(%error, "proxy: a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                tracing::warn!(%peer, "proxy: proxy.max_connections are connected already");
                continue;
            };
            let open_by = Instant::now() + self.settings.handshake_timeout;
            let (shared, mut shutdown) = (Arc::clone(&self.shared), shutdown.clone());
            connections.spawn(async move {
                serve(shared, client, peer, open_by, &mut shutdown).await;
                drop(place);
            });
        }
        while connections.join_next().await.is_some() {}
    }
}

async fn serve(
    shared: Arc<Shared>,
    mut client: TcpStream,
    peer: SocketAddr,
    open_by: Instant,
    shutdown: &mut Shutdown,
) {
    let connecting = timeout_at(open_by, connect(&shared, &mut client));
    let connected = tokio::select! {
        connected = connecting => connected,
        () = shutdown.requested() => return,
    };
    let broker = match connected {
        Ok(Ok(Some(broker))) => broker,
        Ok(Ok(None)) => return,
        Ok(Err(error)) => {
            tracing::debug!(%peer, %error, "proxy: a client was not connected");
            return;
        }
        Err(_) => {
            tracing::debug!(%peer, "proxy: a client did not say in time what it wants");
            return;
        }
    };
    let end = Connection::new(client, broker, shared).run(open_by, shutdown).await;
    match end {
        End::Closed | End::Stopped => tracing::debug!(%peer, "proxy: a connection ended"),
        End::Late => tracing::warn!(%peer, "proxy: a handshake took longer than it may"),
        End::Violation(violation) => {
            tracing::warn!(%peer, ?violation, "proxy: a connection was not AMQP");
        }
    }
}

/// Hears what the client speaks and connects to the broker; `None` where it speaks something else.
async fn connect(shared: &Shared, client: &mut TcpStream) -> io::Result<Option<TcpStream>> {
    client.set_nodelay(true)?;
    let mut protocol = [0; PROTOCOL.len()];
    client.read_exact(&mut protocol).await?;
    if protocol != PROTOCOL {
        client.write_all(&PROTOCOL).await?;
        client.shutdown().await?;
        return Ok(None);
    }
    let mut broker = match shared.upstream.connect().await {
        Ok(broker) => broker,
        Err(error) => {
            let why = format!("no node of amqp.url takes connections for clients: {error}");
            shared.health.report_for(Finding::bad("proxy", why), UNREACHABLE_REMEMBERED);
            return Err(error);
        }
    };
    broker.write_all(&PROTOCOL).await?;
    Ok(Some(broker))
}

impl Rules for Shared {
    fn includes(&self, exchange: &[u8]) -> bool {
        self.delayable.includes(exchange)
    }

    fn fate(&self, exchange: &[u8], vhost: &[u8]) -> Option<Fate> {
        self.delayable.fate(exchange, vhost)
    }

    fn now(&self) -> UnixMs {
        self.clock.now()
    }

    fn latest(&self) -> UnixMs {
        self.clock.latest()
    }

    fn max_ms(&self) -> u64 {
        self.max_ms
    }

    fn must_note(&self, exchange: &[u8], vhost: &[u8]) -> bool {
        self.delayable.must_note(exchange, vhost)
    }

    fn may_be_declared(&self, exchange: &[u8], vhost: &[u8]) -> bool {
        self.delayable.may_be_declared(exchange, vhost)
    }

    fn forget(&self, exchange: &[u8]) {
        self.delayable.forget(exchange);
    }
}

impl Desk for Shared {
    fn ask(self: Arc<Self>, question: Question) -> BoxFuture<'static, (Question, Fate)> {
        async move {
            let fate = match &question {
                Question::Publish(exchange) => self.delayable.ask(exchange).await,
                Question::DeadLetter(exchange) => self.delayable.ask_dead_letter(exchange).await,
                Question::Declared(exchange) => self.delayable.note(exchange).await,
            };
            (question, fate)
        }
        .boxed()
    }
}
