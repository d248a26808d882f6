//! Everything is due in the same millisecond: the worst that a backlog can be.
//!
//! `TEST_AT_ONCE` says how many; `make matrix` has 100 000.

use std::time::Duration;

use lapin::options::{BasicPublishOptions, BasicQosOptions};
use lapin::types::AMQPValue;

use super::support::load::{effort, now_ms};
use super::support::rabbit::{Rabbit, header, headers};
use super::support::sidecar::Sidecar;
use super::support::{PATIENCE, eventually_is, eventually_is_within};

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
    let (producer, consumer) = (Rabbit::connect().await, Rabbit::connect().await);
    let orders = producer.destination().await;
    let mut sidecar = Sidecar::new(&[&orders]);
    sidecar.start().await;
    // Time to park them all before: a slow machine parks some thousand a second.
    let due = now_ms() + 15_000 + count as u64;
    publish(&producer, &format!("xdelay.{orders}"), count, due).await;
    let until_due = || Duration::from_millis(due.saturating_sub(now_ms()));
    let parked = || async { sidecar.metric("xdelay_parked") };
    eventually_is_within(until_due(), count as f64, parked).await;
    consumer.channel.basic_qos(500, BasicQosOptions::default()).await.expect("a window");
    let mut inbox = consumer.consume(&orders).await;
    assert!(inbox.next_within(Duration::from_millis(100)).await.is_none(), "nothing is early");
    let mut copies = vec![0; count];
    for _ in 0..count {
        let delivery = inbox.next_within(until_due() + PATIENCE).await.expect("a message in time");
        assert!(now_ms() >= due, "early");
        let said = AMQPValue::LongLongInt(i64::try_from(due).expect("in range"));
        assert_eq!(header(&delivery, "x-delayed-due"), Some(said));
        let body = String::from_utf8(delivery.data).expect("text");
        copies[body.trim_end().parse::<usize>().expect("a number")] += 1;
    }
    let drained_in = now_ms() - due;
    eventually_is(0.0, || async { sidecar.metrics(&["xdelay_parked", "xdelay_leased"]) }).await;
    assert_eq!(sidecar.metric("xdelay_released_total"), count as f64);
    assert!(copies.iter().all(|copies| *copies == 1), "a copy, and another one lost");
    let peak = sidecar.peak_memory();
    eprintln!("{count} due at once were out after {drained_in} ms, with {peak} KiB at most");
    assert!(peak < PEAK_KIB, "{peak} KiB");
}

async fn publish(rabbit: &Rabbit, front: &str, count: usize, due: u64) {
    let at = i64::try_from(due).expect("in range");
    let options = BasicPublishOptions { mandatory: true, immediate: false };
    for first in (0..count).step_by(CHUNK) {
        let mut confirms = Vec::new();
        for n in first..count.min(first + CHUNK) {
            let body = format!("{n:<BODY$}");
            let properties = headers([("x-deliver-at", AMQPValue::LongLongInt(at))]);
            let (front, key, body) = (front.into(), "key".into(), body.as_bytes());
            let publish = rabbit.channel.basic_publish(front, key, options, body, properties);
            confirms.push(publish.await.expect("published"));
        }
        for confirm in confirms {
            assert!(confirm.await.expect("confirmed").is_ack());
        }
    }
}
