//! Which exchanges may be delayed for, and that their captures stand before anything is sent there.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use tokio::sync::Mutex as AsyncMutex;
use tokio::time::timeout;

use super::pattern::Patterns;
use crate::broker::amqp::{AmqpBroker, Capture};
use crate::destinations::Destinations;
use crate::message::Destination;

/// Before the name of a destination, this makes the name of its capture exchange.
pub(super) const PREFIX: &str = "xdelay.";
/// The longest of the names that are made from a destination is `xdelay.<name>.rescue`.
const NAME_MAX: usize = 255 - "xdelay..rescue".len();
/// How long a publish may be held until its capture stands.
const HOLD_MAX: Duration = Duration::from_secs(5);

/// What becomes of a publish that is to be delayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It goes to the capture exchange.
    Capture,
    /// It goes where it was meant to, as it is: the broker will say that this is not there.
    Forward,
    /// Its channel is closed, with this reason. It is never delivered undelayed.
    Refuse(String),
}

/// All that connections share about exchanges.
pub(super) struct Delayable {
    patterns: Patterns,
    /// The vhost of `amqp.url`, the only one that is captured in.
    vhost: Vec<u8>,
    broker: Arc<AmqpBroker>,
    destinations: Arc<Destinations>,
    /// Whose capture is known to stand.
    standing: RwLock<HashSet<Vec<u8>>>,
    /// What was declared as the plugin's, here or by another replica or process before.
    declared: RwLock<HashSet<Vec<u8>>>,
    /// One connection asks, the others wait for its answer.
    asking: Mutex<HashMap<String, Arc<AsyncMutex<()>>>>,
}

impl Delayable {
    pub(super) fn new(
        patterns: Patterns,
        vhost: &str,
        broker: Arc<AmqpBroker>,
        destinations: Arc<Destinations>,
    ) -> Self {
        Self {
            patterns,
            vhost: vhost.as_bytes().to_vec(),
            broker,
            destinations,
            standing: RwLock::default(),
            declared: RwLock::default(),
            asking: Mutex::default(),
        }
    }

    /// Whether messages to this exchange may be delayed. What is captured already never is again.
    pub(super) fn includes(&self, exchange: &[u8]) -> bool {
        if exchange.starts_with(PREFIX.as_bytes()) || self.patterns.excludes(exchange) {
            return false;
        }
        self.patterns.matches(exchange) || read(&self.declared).contains(exchange)
    }

    /// Whether the exchange, declared as the plugin's, is one that is delayed for and not noted.
    pub(super) fn must_note(&self, exchange: &[u8], vhost: &[u8]) -> bool {
        self.may_be_declared(exchange, vhost) && !read(&self.declared).contains(exchange)
    }

    /// Whether the exchange could be noted as the plugin's.
    pub(super) fn may_be_declared(&self, exchange: &[u8], vhost: &[u8]) -> bool {
        vhost == self.vhost
            && exchange.len() <= NAME_MAX
            && std::str::from_utf8(exchange).is_ok()
            && !exchange.starts_with(PREFIX.as_bytes())
            && !self.patterns.excludes(exchange)
    }

    /// It is deleted: whether it is there again will have to be asked.
    pub(super) fn forget(&self, exchange: &[u8]) {
        write(&self.standing).remove(exchange);
    }

    /// Notes that it was declared as the plugin's; the broker remembers it for everybody.
    pub(super) async fn note(&self, exchange: &str) -> Fate {
        let why = match timeout(HOLD_MAX, self.broker.mark(exchange)).await {
            Ok(Ok(())) => None,
            Ok(Err(why)) => Some(why),
            Err(_) => Some("no answer in time".to_owned()),
        };
        if let Some(why) = why {
            let known = "only this xdelay knows, until it stops, that it was declared as delayed";
            tracing::warn!(exchange, why, known);
        }
        write(&self.declared).insert(exchange.as_bytes().to_vec());
        Fate::Capture
    }

    /// What becomes of messages that are dead-lettered into an exchange: only what was declared as
    /// the plugin's is captured. An ordinary exchange would have them at once, as it always did.
    pub(super) async fn ask_dead_letter(&self, exchange: &str) -> Fate {
        if !read(&self.declared).contains(exchange.as_bytes()) {
            match timeout(HOLD_MAX, self.broker.is_marked(exchange)).await {
                Ok(true) => {
                    write(&self.declared).insert(exchange.as_bytes().to_vec());
                }
                _ => return Fate::Forward,
            }
        }
        self.ask(exchange).await
    }

    /// What is known of a publish to be delayed; `None` where it must be [asked](Self::ask).
    pub(super) fn fate(&self, exchange: &[u8], vhost: &[u8]) -> Option<Fate> {
        if vhost != self.vhost {
            let (theirs, ours) =
                (String::from_utf8_lossy(vhost), String::from_utf8_lossy(&self.vhost));
            let why = format!("xdelay delays messages of vhost '{ours}' only, not of '{theirs}'");
            return Some(Fate::Refuse(why));
        }
        if read(&self.standing).contains(exchange) {
            return Some(Fate::Capture);
        }
        if exchange.len() > NAME_MAX {
            let why = format!("xdelay cannot delay for a name of more than {NAME_MAX} bytes");
            return Some(Fate::Refuse(why));
        }
        if std::str::from_utf8(exchange).is_err() {
            return Some(Fate::Refuse("xdelay cannot delay for a name that is not UTF-8".into()));
        }
        None
    }

    /// Makes sure that the capture stands, and answers in time whether it does.
    pub(super) async fn ask(&self, exchange: &str) -> Fate {
        let why = match timeout(HOLD_MAX, self.capture(exchange)).await {
            Ok(Ok(Capture::Stands)) => return Fate::Capture,
            Ok(Ok(Capture::NoDestination)) => return Fate::Forward,
            Ok(Err(why)) => why,
            Err(_) => format!("no answer in {} s", HOLD_MAX.as_secs()),
        };
        tracing::warn!(exchange, why, "refuses a delayed publish");
        Fate::Refuse(format!("xdelay cannot delay for exchange '{exchange}' now: {why}"))
    }

    async fn capture(&self, exchange: &str) -> Result<Capture, String> {
        let one_at_a_time = {
            let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
            asking.retain(|_, asked| Arc::strong_count(asked) > 1);
            Arc::clone(asking.entry(exchange.to_owned()).or_default())
        };
        let _first = one_at_a_time.lock().await;
        if self.stands(exchange) {
            return Ok(Capture::Stands);
        }
        let capture = self.broker.capture(exchange).await?;
        if capture == Capture::Stands {
            // An xdelay that starts anew must know what to consume.
            if !self.broker.is_configured(exchange) {
                let opened = self.destinations.open(&Destination::amqp(exchange)).await;
                opened.map_err(|error| error.to_string())?;
            }
            write(&self.standing).insert(exchange.as_bytes().to_vec());
        }
        Ok(capture)
    }

    fn stands(&self, exchange: &str) -> bool {
        read(&self.standing).contains(exchange.as_bytes())
    }
}

fn read(names: &RwLock<HashSet<Vec<u8>>>) -> RwLockReadGuard<'_, HashSet<Vec<u8>>> {
    names.read().unwrap_or_else(PoisonError::into_inner)
}

fn write(names: &RwLock<HashSet<Vec<u8>>>) -> RwLockWriteGuard<'_, HashSet<Vec<u8>>> {
    names.write().unwrap_or_else(PoisonError::into_inner)
}
