//! What is counted of the proxy. Nothing is told apart by exchange: those names are its clients' to
//! choose, and there may be any number of them.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::Labels;

/// Counts of all connections together.
#[derive(Clone, Debug, Default)]
pub struct ProxyMetrics {
    connections: Gauge,
    accepted: Counter,
    turned_away: Family<Labels, Counter>,
    delayed: Counter,
    refused: Counter,
    bytes: Family<Labels, Counter>,
}

/// Why a client was sent away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnedAway {
    /// By `proxy.allow` or `proxy.deny`.
    Address,
    /// `proxy.max_connections` are connected.
    Full,
    /// It did not finish its handshake in time.
    Late,
    /// What it sent is not AMQP, or it may not log in like this.
    Violation,
    /// No node of `amqp.url` took its connection.
    Upstream,
}

impl TurnedAway {
    fn as_str(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Full => "full",
            Self::Late => "late",
            Self::Violation => "violation",
            Self::Upstream => "upstream",
        }
    }
}

/// One open connection; it is closed when this is dropped.
#[derive(Debug)]
pub struct OpenConnection(Gauge);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl ProxyMetrics {
    pub(super) fn register(&self, to: &mut Registry) {
        let help = "Clients connected to the proxy";
        to.register("proxy_connections", help, self.connections.clone());
        let help = "Connections that the proxy accepted";
        to.register("proxy_accepted", help, self.accepted.clone());
        let help = "Clients that the proxy sent away, by reason";
        to.register("proxy_turned_away", help, self.turned_away.clone());
        let help = "Publishes that the proxy sent to a capture";
        to.register("proxy_delayed", help, self.delayed.clone());
        let help = "Publishes and declares that the proxy refused";
        to.register("proxy_refused", help, self.refused.clone());
        let help = "Bytes that the proxy passed on, by direction";
        to.register("proxy_bytes", help, self.bytes.clone());
    }

    /// A client was accepted, and counts as connected until the answer is dropped.
    pub fn connected(&self) -> OpenConnection {
        self.accepted.inc();
        self.connections.inc();
        OpenConnection(self.connections.clone())
    }

    /// A client was sent away.
    pub fn turned_away(&self, why: TurnedAway) {
        self.turned_away.get_or_create(&vec![("reason", why.as_str().to_owned())]).inc();
    }

    /// So many publishes were sent to a capture.
    pub fn delayed(&self, count: u64) {
        self.delayed.inc_by(count);
    }

    /// A publish or a declare was refused.
    pub fn refused(&self) {
        self.refused.inc();
    }

    /// Counts what goes to brokers.
    pub fn bytes_to_broker(&self) -> Counter {
        self.bytes_to("broker")
    }

    /// Counts what goes to clients.
    pub fn bytes_to_client(&self) -> Counter {
        self.bytes_to("client")
    }

    fn bytes_to(&self, whom: &str) -> Counter {
        self.bytes.get_or_create(&vec![("to", whom.to_owned())]).clone()
    }
}
