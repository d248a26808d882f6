//! Captures that come up while xdelay runs.

use lapin::options::BasicPublishOptions;
use lapin::types::AMQPValue;

use super::support::proxied;
use crate::support::rabbit::{Rabbit, header, headers};
use crate::support::{eventually_is, unique};

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
