//! xdelay is killed with -9 while clients publish through it: nothing confirmed is lost, and what
//! was never xdelay's is in order.
//!
//! `TEST_MESSAGES` and `TEST_KILLS` make it longer, `TEST_SEED` repeats a run.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicPublishOptions};
use lapin::{Connection, ConnectionProperties};
use tokio::time::timeout;

use super::support::proxied;
use crate::support::load::{Account, all_arrived, consume, effort, produce, seeded};
use crate::support::rabbit::{Rabbit, headers, table};
use crate::support::{a_while, eventually_is, setting};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_under_load_lose_nothing_that_was_confirmed() {
    seeded();
    let rabbit = Rabbit::connect().await;
    let (orders, plain) = (rabbit.destination().await, rabbit.destination().await);
    let (mut sidecar, url) = proxied();
    sidecar.set("RELEASE__LEASE", "2s");
    sidecar.start().await;
    let account = Arc::new(Account::default());
    let consumer = consume(&setting("TEST_AMQP_URL"), &orders, &account);
    let seen = collect(&rabbit, &plain).await;
    let messages = effort("TEST_MESSAGES", 3_000);
    let delayed = produce(&url, &orders, &account, messages, Duration::ZERO);
    let undelayed = tokio::spawn(count_up(url, plain, messages));
    for _ in 0..effort("TEST_KILLS", 5) {
        a_while(200..900).await;
        sidecar.kill();
        a_while(0..300).await;
        sidecar.spawn();
    }
    delayed.await.expect("produced");
    let last = undelayed.await.expect("produced");
    all_arrived(&account).await;
    let copies = account.settle_up();
    assert_eq!(account.confirmed(), messages);
    eprintln!("{messages} messages, {copies} copies");
    eventually_is(true, || async { seen.lock().expect("not poisoned").last() == Some(&last) })
        .await;
    let mut first = seen.lock().expect("not poisoned").clone();
    first.dedup();
    // A number that was not confirmed is published again, and may then have come twice in a row.
    assert!(first.is_sorted(), "undelayed messages stay in order");
    assert_eq!(first.len(), last as usize + 1, "and none is missing");
    consumer.abort();
}

/// What arrives in a queue, as numbers.
async fn collect(rabbit: &Rabbit, queue: &str) -> Arc<Mutex<Vec<u64>>> {
    let options = BasicConsumeOptions::default();
    let consumer = rabbit.channel.basic_consume(queue.into(), "".into(), options, table([]));
    let mut consumer = consumer.await.expect("a consumer");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Some(Ok(got)) = consumer.next().await {
            let number = String::from_utf8_lossy(&got.data).parse().expect("a number");
            into.lock().expect("not poisoned").push(number);
            let _ = got.acker.ack(BasicAckOptions::default()).await;
        }
    });
    seen
}

/// Publishes numbers without a delay, each until it is confirmed; answers the last.
async fn count_up(url: String, exchange: String, count: usize) -> u64 {
    let (mut next, count) = (0_u64, count as u64);
    while next < count {
        let connecting = Connection::connect(&url, ConnectionProperties::default());
        let Ok(Ok(connection)) = timeout(Duration::from_secs(5), connecting).await else {
            a_while(50..51).await;
            continue;
        };
        let Ok(channel) = connection.create_channel().await else { continue };
        if channel.confirm_select(Default::default()).await.is_err() {
            continue;
        }
        while next < count {
            let body = next.to_string();
            let publish = async {
                let options = BasicPublishOptions { mandatory: true, immediate: false };
                let exchange = exchange.as_str().into();
                let body = body.as_bytes();
                channel
                    .basic_publish(exchange, "key".into(), options, body, headers([]))
                    .await?
                    .await
            };
            match timeout(Duration::from_secs(5), publish).await {
                Ok(Ok(confirm)) if confirm.is_ack() => next += 1,
                _ => break,
            }
        }
    }
    count - 1
}
