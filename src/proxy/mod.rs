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
//! | `upstream`, `tls`, `access` | the broker's nodes; who may connect, and as whom |

mod access;
mod answers;
mod connection;
mod content;
mod declares;
mod destinations;
mod frames;
#[cfg(any(test, feature = "test-support"))]
pub mod fuzz;
mod methods;
mod pattern;
mod pipe;
mod requests;
mod tls;
mod upstream;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsAcceptor;

use self::access::{Doorman, LoginRules};
use self::connection::{Connection, Desk, End, Stream};
use self::destinations::{Delayable, Fate};
use self::frames::Violation;
use self::pattern::Patterns;
use self::requests::{Question, Rules};
use self::upstream::Upstream;
use crate::broker::amqp::AmqpBroker;
use crate::clock::{StoreClock, UnixMs, millis};
use crate::config::{self, Config};
use crate::destinations::Destinations;
use crate::finding::Finding;
use crate::health::Health;
use crate::metrics::{Metrics, TurnedAway};
use crate::shutdown::Shutdown;

/// What every client of AMQP 0-9-1 says first.
const PROTOCOL: [u8; 8] = *b"AMQP\0\0\x09\x01";
/// How long it is remembered that the broker could not be reached for a client.
const UNREACHABLE_REMEMBERED: Duration = Duration::from_secs(30);

/// The proxy, with its port.
pub struct Proxy {
    listener: TcpListener,
    settings: config::Proxy,
    doorman: Doorman,
    tls: Option<TlsAcceptor>,
    shared: Arc<Shared>,
}

/// The streams to a client and to its broker.
type Both = (Box<dyn Stream>, Box<dyn Stream>);

/// What all connections share.
struct Shared {
    delayable: Delayable,
    clock: Arc<StoreClock>,
    max_ms: u64,
    upstream: Upstream,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
}

impl Proxy {
    /// Takes the port.
    ///
    /// # Errors
    /// When it cannot be had, or a certificate cannot be used.
    pub async fn bind(
        settings: &config::Proxy,
        config: &Config,
        clock: Arc<StoreClock>,
        broker: Arc<AmqpBroker>,
        destinations: Arc<Destinations>,
        health: Arc<Health>,
        metrics: Arc<Metrics>,
    ) -> anyhow::Result<Self> {
        let tls = settings.tls.as_ref().map(tls::acceptor).transpose()?;
        let upstream = Upstream::new(&config.amqp.nodes, settings)?;
        let listen = settings.listen;
        let listener = TcpListener::bind(listen).await;
        let listener =
            listener.with_context(|| format!("proxy.listen = {listen} cannot be had"))?;
        let doorman = Doorman { allow: settings.allow.clone(), deny: settings.deny.clone() };
        let patterns = Patterns::new(&settings.exchanges);
        let delayable = Delayable::new(patterns, upstream.vhost(), broker, destinations);
        let max_ms = millis(config.delay.max);
        let shared = Arc::new(Shared { delayable, clock, max_ms, upstream, health, metrics });
        Ok(Self { listener, settings: settings.clone(), doorman, tls, shared })
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
        let metrics = self.shared.metrics.proxy();
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
            if !self.doorman.admits(peer.ip()) {
                tracing::debug!(%peer, "proxy: turned away by proxy.allow or proxy.deny");
                metrics.turned_away(TurnedAway::Address);
                continue;
            }
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                tracing::warn!(%peer, "proxy: proxy.max_connections are connected already");
                metrics.turned_away(TurnedAway::Full);
                continue;
            };
            let is_local = peer.ip().to_canonical().is_loopback();
            let visit = Visit {
                shared: Arc::clone(&self.shared),
                tls: self.tls.clone(),
                peer,
                login: LoginRules {
                    no_guest: !is_local && !self.settings.remote_guest,
                    no_external: self.settings.upstream.identity.is_some(),
                },
                open_by: Instant::now() + self.settings.handshake_timeout,
            };
            let mut shutdown = shutdown.clone();
            let open = metrics.connected();
            connections.spawn(async move {
                visit.serve(client, &mut shutdown).await;
                drop((place, open));
            });
        }
        while connections.join_next().await.is_some() {}
    }
}

/// One client, from when it is accepted.
struct Visit {
    shared: Arc<Shared>,
    tls: Option<TlsAcceptor>,
    peer: SocketAddr,
    login: LoginRules,
    open_by: Instant,
}

impl Visit {
    async fn serve(self, client: TcpStream, shutdown: &mut Shutdown) {
        let (peer, metrics) = (self.peer, self.shared.metrics.proxy().clone());
        let connected = tokio::select! {
            connected = timeout_at(self.open_by, self.connect(client)) => connected,
            () = shutdown.requested() => return,
        };
        let (client, broker) = match connected {
            Ok(Ok(Some(both))) => both,
            Ok(Ok(None)) => return,
            Ok(Err(error)) => {
                tracing::debug!(%peer, %error, "proxy: a client was not connected");
                return;
            }
            Err(_) => {
                tracing::debug!(%peer, "proxy: a client did not say in time what it wants");
                metrics.turned_away(TurnedAway::Late);
                return;
            }
        };
        let count = metrics.clone();
        let connection = Connection::new(client, broker, self.shared, self.login, count);
        match connection.run(self.open_by, shutdown).await {
            End::Closed | End::Stopped => tracing::debug!(%peer, "proxy: a connection ended"),
            End::Late => {
                metrics.turned_away(TurnedAway::Late);
                tracing::warn!(%peer, "proxy: a handshake took longer than it may");
            }
            End::Violation(Violation(_, why)) => {
                metrics.turned_away(TurnedAway::Violation);
                tracing::warn!(%peer, why, "proxy: ends a connection");
            }
        }
    }

    /// Hears what the client speaks and connects to the broker; `None` where it speaks something
    /// else.
    async fn connect(&self, client: TcpStream) -> io::Result<Option<Both>> {
        client.set_nodelay(true)?;
        let here = client.local_addr()?;
        let mut client: Box<dyn Stream> = match &self.tls {
            Some(tls) => Box::new(tls.accept(client).await?),
            None => Box::new(client),
        };
        let mut protocol = [0; PROTOCOL.len()];
        client.read_exact(&mut protocol).await?;
        if protocol != PROTOCOL {
            client.write_all(&PROTOCOL).await?;
            client.shutdown().await?;
            return Ok(None);
        }
        let Shared { upstream, health, metrics, .. } = &*self.shared;
        let mut broker = upstream.connect(self.peer, here).await.inspect_err(|error| {
            let why = format!("no node of amqp.url takes connections for clients: {error}");
            health.report_for(Finding::bad("proxy", why), UNREACHABLE_REMEMBERED);
            metrics.proxy().turned_away(TurnedAway::Upstream);
        })?;
        broker.write_all(&PROTOCOL).await?;
        broker.flush().await?;
        Ok(Some((client, broker)))
    }
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
