//! Everything is due in the same millisecond: the worst that a backlog can be.
//!
//! `TEST_AT_ONCE` says how many; `make matrix` has 100 000.

use std::sync::Arc;
use std::time::Duration;

use lapin::options::BasicPublishOptions;
use lapin::types::AMQPValue;

use super::support::load::{Account, all_arrived, consume, effort, now_ms};
use super::support::rabbit::{Rabbit, headers};
use super::support::sidecar::Sidecar;
use super::support::{eventually_is, setting};

/// Bytes of a body: those of all messages together are more than may be in memory.
const BODY: usize = 1_024;
/// Most KiB that the process may ever have had: what it has when nothing happens, and the limits
/// of intake and release, in a build without optimization.
const PEAK_KIB: u64 = 256 * 1_024;
/// Publishes whose confirms are awaited together.
const CHUNK: usize = 500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_are_delivered_once_in_bounded_memory() {
    let count = effort("TEST_AT_ONCE", 5_000);
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let mut sidecar = Sidecar::new(&[&orders]);
    sidecar.start().await;
    let account = Arc::new(Account::default());
    let consumer = consume(&setting("TEST_AMQP_URL"), &orders, &account);
    // Time to park them all before: a slow machine parks some thousand a second.
    let due = now_ms() + 15_000 + count as u64;
    publish(&rabbit, &format!("xdelay.{orders}"), count, due, &account).await;
    let all = count as f64;
    let mut parked = 0.0;
    while parked < all {
        assert!(now_ms() < due, "only {parked} were parked in time");
        parked = sidecar.metrics(&["xdelay_parked"]);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(account.missing(), count, "nothing came early");
    // Not a pause of ours: this is when they are due.
    tokio::time::sleep(Duration::from_millis(due.saturating_sub(now_ms()))).await;
    all_arrived(&account).await;
    let drained_in = now_ms() - due;
    eventually_is(0.0, || async { sidecar.metrics(&["xdelay_parked", "xdelay_leased"]) }).await;
    eventually_is(0, || rabbit.ready(&orders)).await;
    assert_eq!(account.settle_up(), 0, "copies");
    let peak = sidecar.peak_memory();
    eprintln!("{count} due at once were out after {drained_in} ms, with {peak} KiB at most");
    assert!(peak < PEAK_KIB, "{peak} KiB");
    consumer.abort();
}

async fn publish(rabbit: &Rabbit, front: &str, count: usize, due: u64, account: &Account) {
    let padding = "x".repeat(BODY);
    let at = i64::try_from(due).expect("in range");
    let options = BasicPublishOptions { mandatory: true, immediate: false };
    let names: Vec<String> = (0..count).map(|n| format!("{n} {padding}")).collect();
    for chunk in names.chunks(CHUNK) {
        let mut confirms = Vec::new();
        for name in chunk {
            account.try_one(name, 0);
            let properties = headers([("x-deliver-at", AMQPValue::LongLongInt(at))]);
            let (front, key, body) = (front.into(), "key".into(), name.as_bytes());
            let publish = rabbit.channel.basic_publish(front, key, options, body, properties);
            confirms.push(publish.await.expect("published"));
        }
        for (confirm, name) in confirms.into_iter().zip(chunk) {
            assert!(confirm.await.expect("confirmed").is_ack());
            account.confirm(name.clone());
        }
    }
}
