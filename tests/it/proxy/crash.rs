//! xdelay is killed with -9 while clients publish through it: nothing confirmed is lost, and what
//! was not in its hands is in the order of publish.
//!
//! `TEST_MESSAGES` and `TEST_KILLS` make it longer, `TEST_SEED` repeats a run.

use std::sync::Arc;
use std::time::Duration;

use lapin::types::AMQPValue;

use super::streams::Stream;
use super::support::proxied;
use crate::support::load::{Account, all_arrived, consume, effort, produce, seeded};
use crate::support::rabbit::{Rabbit, headers};
use crate::support::{a_while, eventually, setting};

/// `release.max_in_flight` here: what one kill can put out of its place.
const IN_FLIGHT: usize = 100;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_under_load_lose_nothing_that_was_confirmed_and_keep_the_order() {
    seeded();
    let rabbit = Rabbit::connect().await;
    let [orders, plain, later] =
        [rabbit.destination().await, rabbit.destination().await, rabbit.destination().await];
    let (mut sidecar, url) = proxied();
    sidecar.set("RELEASE__LEASE", "2s");
    sidecar.set("RELEASE__BATCH", &(IN_FLIGHT / 2).to_string());
    sidecar.set("RELEASE__MAX_IN_FLIGHT", &IN_FLIGHT.to_string());
    sidecar.start().await;
    let (messages, kills) = (effort("TEST_MESSAGES", 3_000), effort("TEST_KILLS", 5));

    let account = Arc::new(Account::default());
    let consumer = consume(&setting("TEST_AMQP_URL"), &orders, &account);
    let varied = produce(&url, &orders, &account, messages / 10, Duration::ZERO);
    let (undelayed, delayed) = (Stream::default(), Stream::default());
    let collecting =
        [undelayed.collect(&rabbit, &plain).await, delayed.collect(&rabbit, &later).await];
    let delay = headers([("x-delay", AMQPValue::LongInt(1_000))]);
    let producing = [
        undelayed.produce(&url, &plain, headers([]), messages),
        delayed.produce(&url, &later, delay, messages),
    ];
    for kill in 1..=kills {
        let so_many = messages * kill / (kills + 1);
        eventually_some(&delayed, so_many).await;
        a_while(0..50).await;
        sidecar.kill();
        a_while(0..300).await;
        sidecar.spawn();
    }
    for produced in producing {
        produced.await.expect("produced");
    }
    varied.await.expect("produced");
    all_arrived(&account).await;
    undelayed.all_arrived().await;
    delayed.all_arrived().await;

    let copies = account.settle_up();
    assert_eq!(undelayed.out_of_place(), (0, 0), "undelayed messages are in order");
    let (displaced, after_the_last_kill) = delayed.out_of_place();
    eprintln!("{messages} messages, {copies} copies, {displaced} out of place");
    assert!(displaced <= kills * IN_FLIGHT, "{displaced} are out of place");
    assert_eq!(after_the_last_kill, 0, "without a fault they are in order");
    consumer.abort();
    for collector in collecting {
        collector.abort();
    }
}

/// Waits until so many are confirmed, however long it takes as long as there are more.
async fn eventually_some(stream: &Stream, so_many: usize) {
    let mut confirmed = stream.confirmed();
    while confirmed < so_many {
        let before = confirmed;
        confirmed = eventually("more are confirmed", || async {
            let now = stream.confirmed();
            (now > before).then_some(now)
        })
        .await;
    }
}
