//! What tests share: services, names of their own, and waiting for a state.

pub mod certificates;
pub mod fault_proxy;
pub mod invariants;
pub mod kafka;
pub mod load;
pub mod parking;
pub mod rabbit;
pub mod raw_publisher;
pub mod redis;
pub mod redis_cluster;
pub mod redis_sentinel;
pub mod sidecar;
pub mod witness;

use std::fmt::Debug;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use xdelay::message::Content;

/// How long anything may take that a test waits for.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A setting that `dev/services run` gives to tests.
pub fn setting(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: run `make test`, or `dev/services up` and `dev/services run main cargo test`")
    })
}

/// What a message says.
pub fn body(content: &Content) -> String {
    let body = match content {
        Content::Amqp(amqp) => amqp.body.clone(),
        Content::Kafka(record) => record.value.clone().unwrap_or_default(),
    };
    String::from_utf8_lossy(&body).into_owned()
}

/// A name that no other test has.
pub fn unique(what: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{what}-{}-{count}", std::process::id())
}

/// A port that is free, and stays so while its server is down: no test gets it twice, and it lies
/// below those that systems lend to outgoing connections.
pub fn free_port() -> u16 {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    const PORTS: std::ops::Range<u32> = 20_000..32_000;
    loop {
        let next = std::process::id() * 101 + COUNT.fetch_add(1, Ordering::Relaxed);
        let port = (PORTS.start + next % (PORTS.end - PORTS.start)) as u16;
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// How long a fault lasts, or the time until the next: drawn at random, in milliseconds. Nothing is
/// waited for with this; that is what [`eventually`] is for.
pub async fn a_while(range: std::ops::Range<u64>) {
    tokio::time::sleep(Duration::from_millis(fastrand::u64(range))).await;
}

/// Waits until `look` answers something, and gives that.
pub async fn eventually<T, F, W>(what: &str, look: F) -> T
where
    F: FnMut() -> W,
    W: Future<Output = Option<T>>,
{
    eventually_or(what, look, String::new).await
}

/// The same; `why` says what is known when it never does.
pub async fn eventually_or<T, F, W>(what: &str, mut look: F, why: impl Fn() -> String) -> T
where
    F: FnMut() -> W,
    W: Future<Output = Option<T>>,
{
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < end, "waited {PATIENCE:?} in vain until {what}; {}", why());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until `look` answers what is expected; shows the last answer when it never does.
pub async fn eventually_is<T, F, W>(expected: T, look: F)
where
    T: PartialEq + Debug,
    F: FnMut() -> W,
    W: Future<Output = T>,
{
    eventually_is_within(PATIENCE, expected, look).await;
}

/// The same, with a patience of one's own.
pub async fn eventually_is_within<T, F, W>(patience: Duration, expected: T, mut look: F)
where
    T: PartialEq + Debug,
    F: FnMut() -> W,
    W: Future<Output = T>,
{
    let end = Instant::now() + patience;
    loop {
        let found = look().await;
        if found == expected {
            return;
        }
        assert!(Instant::now() < end, "waited {patience:?} for {expected:?}, it stays {found:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
