//! A producer and a consumer that outlive broken connections and keep account of every message.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime};

use futures_util::StreamExt;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions,
    ConfirmSelectOptions,
};
use lapin::types::{AMQPValue, ShortString};
use lapin::{BasicProperties, Connection, ConnectionProperties};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::invariants::{self, Delivery, Event, History, Terms};
use super::rabbit::{headers, table};
use super::{a_while, eventually, setting};

/// How long a single exchange may take before its connection is given up.
const GIVE_UP: Duration = Duration::from_secs(5);

/// Unix milliseconds of this host, whose clock the Redis under test has too.
pub fn now_ms() -> u64 {
    let since = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970");
    u64::try_from(since.as_millis()).expect("in range")
}

/// What was published, confirmed, and what arrived.
#[derive(Default)]
pub struct Account(Mutex<History>);

impl Account {
    pub fn confirmed(&self) -> usize {
        self.history().confirmed()
    }

    /// How many confirmed messages have not arrived.
    pub fn missing(&self) -> usize {
        self.history().missing()
    }

    /// One is about to be published.
    pub fn try_one(&self, id: &str, delay: u64) {
        let now = now_ms();
        self.history().note(id, now, Event::Published { not_before: now + delay });
    }

    pub fn confirm(&self, id: String) {
        self.history().note(&id, now_ms(), Event::Confirmed);
    }

    pub fn note(&self, id: String, at: u64, due: u64) {
        self.history().note(&id, at, Event::Delivered(Delivery::due(due)));
    }

    /// Holds every invariant against what was seen; answers how many copies were too many.
    #[track_caller]
    pub fn settle_up(&self) -> usize {
        self.hold(&Terms::FAULTS)
    }

    /// The same of a run in which messages were lost.
    #[track_caller]
    pub fn copies(&self) -> usize {
        self.hold(&Terms { may_lose: true, ..Terms::FAULTS })
    }

    #[track_caller]
    fn hold(&self, terms: &Terms) -> usize {
        let history = self.history();
        invariants::hold(&history, terms);
        history.copies()
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.0.lock().expect("not poisoned")
    }
}

/// Publishes `count` messages of random delays, `pace` apart, each until it is confirmed.
pub fn produce(
    url: &str,
    exchange: &str,
    account: &Arc<Account>,
    count: usize,
    pace: Duration,
) -> JoinHandle<()> {
    produce_while(url, exchange, account, pace, move |confirmed| confirmed < count)
}

/// The same until an instant.
pub fn produce_until(
    url: &str,
    exchange: &str,
    account: &Arc<Account>,
    end: Instant,
    pace: Duration,
) -> JoinHandle<()> {
    produce_while(url, exchange, account, pace, move |_| Instant::now() < end)
}

/// The same while `more` says so of the number confirmed.
fn produce_while(
    url: &str,
    exchange: &str,
    account: &Arc<Account>,
    pace: Duration,
    more: impl Fn(usize) -> bool + Send + 'static,
) -> JoinHandle<()> {
    let (url, exchange, account) = (url.to_owned(), exchange.to_owned(), Arc::clone(account));
    tokio::spawn(async move {
        // Several may produce for one account.
        let (who, mut next, mut tries) = (fastrand::u32(..), 0, 0);
        while more(next) {
            let Ok(connection) = connect(&url).await else { continue };
            let Ok(channel) = connection.create_channel().await else { continue };
            let select = channel.confirm_select(ConfirmSelectOptions::default());
            let Ok(Ok(())) = timeout(GIVE_UP, select).await else { continue };
            while more(next) {
                // A new body for every try: one that was not confirmed may have arrived too.
                tries += 1;
                let (id, delay) = (format!("{who:x}.{next}.{tries}"), fastrand::u64(1..3_000));
                account.try_one(&id, delay);
                let properties = delayed(&id, delay);
                let publish = async {
                    let options = BasicPublishOptions { mandatory: true, immediate: false };
                    let exchange = ShortString::from(exchange.as_str());
                    channel
                        .basic_publish(exchange, "key".into(), options, id.as_bytes(), properties)
                        .await?
                        .await
                };
                match timeout(GIVE_UP, publish).await {
                    Ok(Ok(confirm)) if confirm.is_ack() => {
                        account.confirm(id);
                        next += 1;
                    }
                    _ => break,
                }
                tokio::time::sleep(pace).await;
            }
        }
    })
}

fn delayed(id: &str, delay: u64) -> BasicProperties {
    let delay = AMQPValue::LongLongInt(i64::try_from(delay).expect("in range"));
    headers([("x-delay", delay)]).with_message_id(id.into()).with_delivery_mode(2)
}

/// Consumes for ever, through broken connections.
pub fn consume(url: &str, queue: &str, account: &Arc<Account>) -> JoinHandle<()> {
    let (url, queue, account) = (url.to_owned(), queue.to_owned(), Arc::clone(account));
    tokio::spawn(async move {
        loop {
            let Ok(connection) = connect(&url).await else { continue };
            let Ok(channel) = connection.create_channel().await else { continue };
            let _ = channel.basic_qos(500, BasicQosOptions::default()).await;
            let options = BasicConsumeOptions::default();
            let consume =
                channel.basic_consume(queue.as_str().into(), "".into(), options, table([]));
            let Ok(Ok(mut consumer)) = timeout(GIVE_UP, consume).await else { continue };
            while let Some(Ok(delivery)) = consumer.next().await {
                let at = now_ms();
                let id = String::from_utf8_lossy(&delivery.data).into_owned();
                let due = match super::rabbit::header(&delivery, "x-delayed-due") {
                    Some(AMQPValue::LongLongInt(due)) => u64::try_from(due).expect("in range"),
                    other => panic!("no due: {other:?}"),
                };
                account.note(id, at, due);
                let _ = delivery.acker.ack(BasicAckOptions::default()).await;
            }
        }
    })
}

async fn connect(url: &str) -> Result<Connection, ()> {
    let connect = Connection::connect(url, ConnectionProperties::default());
    match timeout(GIVE_UP, connect).await {
        Ok(Ok(connection)) => Ok(connection),
        _ => {
            a_while(50..150).await;
            Err(())
        }
    }
}

/// Waits for the last message, however long it takes as long as some arrive.
pub async fn all_arrived(account: &Account) {
    let mut missing = account.missing();
    while missing > 0 {
        eventually("more messages arrive", || async {
            (account.missing() < missing).then_some(())
        })
        .await;
        missing = account.missing();
    }
}

/// How many messages and kills a crash test has.
pub fn effort(name: &str, usual: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// The seed of this run: printed, so that it can be given again.
pub fn seeded() -> u64 {
    let seed = std::env::var("TEST_SEED").ok().and_then(|text| text.parse().ok());
    seeded_with(seed.unwrap_or_else(|| fastrand::u64(..)))
}

/// The same, of a run that is always seeded so.
pub fn seeded_with(seed: u64) -> u64 {
    eprintln!("TEST_SEED={seed} on {}", setting("TEST_RABBITMQ_NODE"));
    fastrand::seed(seed);
    seed
}
