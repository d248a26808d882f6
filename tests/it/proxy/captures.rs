//! Captures that come up while xdelay runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use lapin::options::BasicPublishOptions;
use lapin::types::AMQPValue;

use xdelay::broker::amqp::AmqpBroker;
use xdelay::broker::{Broker, Intake};
use xdelay::clock::{StoreClock, WallClock};
use xdelay::config::{Config, Sources};
use xdelay::health::Health;
use xdelay::message::Uid;
use xdelay::metrics::Metrics;
use xdelay::store::embedded::EmbeddedStore;

use super::support::proxied;
use crate::support::rabbit::{Rabbit, header, headers};
use crate::support::{PATIENCE, eventually_is, setting, unique};

fn delayed(ms: i32) -> lapin::BasicProperties {
    headers([("x-delay", AMQPValue::LongInt(ms))])
}

#[tokio::test]
async fn many_connections_may_need_the_same_new_capture_at_once() {
    let (mut sidecar, url) = proxied();
    sidecar.start().await;
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let mut inbox = rabbit.consume(&orders).await;
    let publishing = (0..20).map(|n: u32| {
        let (url, orders) = (url.clone(), orders.clone());
        tokio::spawn(async move {
            let client = Rabbit::connect_to(&url).await;
            client.publish(&orders, delayed(10), n.to_string().as_bytes()).await;
        })
    });
    for publishing in publishing.collect::<Vec<_>>() {
        publishing.await.expect("published");
    }
    let mut bodies = std::collections::BTreeSet::new();
    while bodies.len() < 20 {
        let got = inbox.next().await;
        assert!(header(&got, "x-delayed-uid").is_some(), "not one passed undelayed");
        bodies.insert(got.data);
    }
    assert_eq!(rabbit.consumers(&format!("xdelay.park.{orders}")).await, 1);
}

#[tokio::test]
async fn what_was_captured_before_a_stop_is_consumed_after_the_start() {
    let (mut sidecar, url) = proxied();
    sidecar.start().await;
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let mut inbox = rabbit.consume(&orders).await;
    {
        let client = Rabbit::connect_to(&url).await;
        client.publish(&orders, delayed(10), b"first").await;
        inbox.next().await;
    }
    sidecar.kill();
    rabbit.publish(&format!("xdelay.{orders}"), delayed(10), b"while it was down").await;
    sidecar.start().await;
    assert_eq!(inbox.next().await.data, b"while it was down");
}

#[tokio::test]
async fn a_missing_destination_is_the_brokers_own_404() {
    let (mut sidecar, url) = proxied();
    sidecar.start().await;
    let rabbit = Rabbit::connect_to(&url).await;
    let missing = unique("missing");
    let options = BasicPublishOptions::default();
    let exchange = missing.as_str().into();
    let publish = rabbit.channel.basic_publish(exchange, "key".into(), options, b"m", delayed(9));
    let error = publish.await.expect("sent").await.expect_err("refused").to_string();
    assert!(error.contains("NOT_FOUND") && error.contains(&missing), "{error}");
    assert!(!error.contains("xdelay."), "as if nobody stood between: {error}");
    // Once it is there, it is delayed for.
    let client = Rabbit::connect_to(&url).await;
    client.declare_exchange(&missing).await;
    client.declare_queue(&missing).await;
    let mut inbox = client.consume(&missing).await;
    client.publish(&missing, delayed(50), b"later").await;
    assert!(header(&inbox.next().await, "x-delayed-uid").is_some());
}

#[tokio::test]
async fn what_is_excluded_or_captured_already_is_left_alone() {
    let rabbit = Rabbit::connect().await;
    let (orders, audit) = (rabbit.destination().await, rabbit.destination().await);
    let (mut sidecar, url) = proxied();
    sidecar.set("PROXY__EXCHANGES", &format!("*,!{audit}"));
    sidecar.set("AMQP__EXCHANGES", &orders);
    sidecar.start().await;
    let client = Rabbit::connect_to(&url).await;
    let (mut inbox, mut log) = (rabbit.consume(&orders).await, rabbit.consume(&audit).await);
    client.publish(&audit, delayed(60_000), b"at once").await;
    let got = log.next().await;
    assert_eq!(header(&got, "x-delay"), Some(AMQPValue::LongInt(60_000)), "untouched");
    client.publish(&format!("xdelay.{orders}"), delayed(50), b"later").await;
    assert_eq!(inbox.next().await.data, b"later");
    eventually_is(1.0, || async { sidecar.metric("xdelay_released_total") }).await;
}

/// The intake of an adapter that captures for one exchange.
async fn intake(exchange: &str) -> Box<dyn Intake> {
    let set = [
        ("XDELAY_REDIS__URL", setting("TEST_REDIS_URL")),
        ("XDELAY_AMQP__URL", setting("TEST_AMQP_URL")),
        ("XDELAY_AMQP__EXCHANGES", exchange.to_owned()),
    ];
    let env = set.map(|(name, value)| (name.to_owned(), value)).into();
    let config = Config::load(Sources { file: None, env, overrides: Vec::new() }).expect("valid");
    let (health, metrics) = (Arc::new(Health::default()), Arc::new(Metrics::default()));
    let store = EmbeddedStore::in_memory(WallClock::Host, Arc::default()).expect("a store");
    let clock = Arc::new(StoreClock::new());
    AmqpBroker::new(&config, Arc::new(store), clock, &health, &metrics).intake().await
}

/// The uids of the next captures, none of them acked.
async fn uids(intake: &mut dyn Intake, count: usize) -> Vec<Uid> {
    let mut uids = Vec::new();
    while uids.len() < count {
        let next = tokio::time::timeout(PATIENCE, intake.next()).await;
        let batch = next.expect("in time").expect("not stopped");
        uids.extend(batch.into_iter().map(|delivery| delivery.uid));
    }
    uids
}

#[tokio::test]
async fn a_capture_that_is_delivered_again_is_parked_once() {
    let (mut sidecar, url) = proxied();
    sidecar.start().await;
    let client = Rabbit::connect_to(&url).await;
    let orders = client.destination().await;
    let mut inbox = client.consume(&orders).await;
    client.publish(&orders, delayed(10), b"makes the capture").await;
    inbox.next().await;
    // From here on nobody takes anything in but us.
    sidecar.kill();
    let rabbit = Rabbit::connect().await;
    let stamp = |n: u8| {
        AMQPValue::LongString(format!("1 00000000000000{n:02x} 00000000000000{n:02x} - - -").into())
    };
    for (n, body) in [(1, b"one"), (1, b"two"), (2, b"one")] {
        let delay = AMQPValue::LongInt(60_000);
        let properties = headers([("x-delay", delay), ("x-delay-stamp", stamp(n))]);
        rabbit.publish(&format!("xdelay.{orders}"), properties, body).await;
    }
    let mut first = intake(&orders).await;
    let before = uids(&mut *first, 3).await;
    drop(first);
    let mut second = intake(&orders).await;
    assert_eq!(uids(&mut *second, 3).await, before, "the same names when they come again");
    let different: BTreeSet<_> = before.iter().map(ToString::to_string).collect();
    assert_eq!(different.len(), 3, "and a copied stamp is another message's when the message is");
}
