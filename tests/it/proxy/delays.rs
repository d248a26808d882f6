//! What a producer asks for is what its consumers get, and what the broker says of it is true.

use std::time::{Duration, Instant};

use lapin::BasicProperties;
use lapin::options::{BasicPublishOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldArray};

use super::support::proxied;
use crate::support::fault_proxy::{FaultProxy, Weather};
use crate::support::load::now_ms;
use crate::support::rabbit::{Rabbit, header, headers, table, text};
use crate::support::{eventually_is, setting, unique};

fn delayed(ms: i32) -> BasicProperties {
    headers([("x-delay", AMQPValue::LongInt(ms))])
}

#[tokio::test]
async fn a_delayed_publish_waits_and_others_do_not() {
    let (mut sidecar, url) = proxied();
    sidecar.start().await;
    let rabbit = Rabbit::connect_to(&url).await;
    let orders = rabbit.destination().await;
    let mut inbox = rabbit.consume(&orders).await;
    let published = now_ms();
    rabbit.publish(&orders, delayed(700), b"later").await;
    rabbit.publish(&orders, delayed(300), b"sooner").await;
    rabbit.publish(&orders, headers([]), b"at once").await;
    for (body, delay) in [(&b"at once"[..], None), (b"sooner", Some(300)), (b"later", Some(700))] {
        let got = inbox.next().await;
        assert_eq!((&got.data[..], got.exchange.as_str()), (body, orders.as_str()));
        assert_eq!(got.routing_key.as_str(), "key");
        assert_eq!(header(&got, "x-delay"), delay.map(|ms| AMQPValue::LongInt(-ms)));
        if let Some(delay) = delay {
            let Some(AMQPValue::LongLongInt(due)) = header(&got, "x-delayed-due") else {
                panic!("no due");
            };
            assert!(due as u64 >= published + delay as u64, "never early");
            assert!(now_ms() >= due as u64);
        }
    }
    assert_eq!(sidecar.metric("xdelay_captured_total"), 2.0, "the undelayed one was never ours");
}

#[tokio::test]
async fn the_default_exchange_is_delayed_too() {
    let (mut sidecar, url) = proxied();
    sidecar.start().await;
    let rabbit = Rabbit::connect_to(&url).await;
    let queue = unique("queue");
    rabbit.declare_exchange(&queue).await;
    rabbit.declare_queue(&queue).await;
    let mut inbox = rabbit.consume(&queue).await;
    rabbit.publish_with_key("", &queue, delayed(200), b"later").await;
    let got = inbox.next().await;
    assert_eq!((&got.data[..], got.exchange.as_str()), (&b"later"[..], ""));
    assert_eq!(header(&got, "x-delay"), Some(AMQPValue::LongInt(-200)));
}

#[tokio::test]
async fn a_message_is_cancelled_and_replaced_by_its_id() {
    let (mut sidecar, url) = proxied();
    sidecar.start().await;
    let rabbit = Rabbit::connect_to(&url).await;
    let orders = rabbit.destination().await;
    let mut inbox = rabbit.consume(&orders).await;
    let with_id = |ms, id| headers([("x-delay", AMQPValue::LongInt(ms)), ("x-delay-id", text(id))]);
    rabbit.publish(&orders, with_id(700, "a"), b"cancelled").await;
    rabbit.publish(&orders, with_id(60_000, "b"), b"replaced").await;
    rabbit.publish(&orders, with_id(900, "b"), b"replacing").await;
    rabbit.publish(&orders, headers([("x-delay-cancel", text("a"))]), b"").await;
    assert_eq!(inbox.next().await.data, b"replacing");
    eventually_is(1.0, || async { sidecar.metric("xdelay_cancelled_total") }).await;
}

#[tokio::test]
async fn what_the_capture_queue_would_spoil_is_restored() {
    let (mut sidecar, url) = proxied();
    let redis = FaultProxy::before(&setting("TEST_REDIS_URL")).await;
    sidecar.set("REDIS__URL", &redis.url(&setting("TEST_REDIS_URL")));
    sidecar.start().await;
    let rabbit = Rabbit::connect_to(&url).await;
    let orders = rabbit.destination().await;
    let copies = unique("copies");
    let options = QueueDeclareOptions::default();
    rabbit
        .channel
        .queue_declare(copies.as_str().into(), options, table([]))
        .await
        .expect("a queue");
    let exchange = unique("direct");
    rabbit.declare_exchange(&exchange).await;
    for (queue, key) in [(&orders, "main"), (&copies, "copy")] {
        let (queue, bind) = (queue.as_str().into(), QueueBindOptions::default());
        let bound =
            rabbit.channel.queue_bind(queue, exchange.as_str().into(), key.into(), bind, table([]));
        bound.await.expect("bound");
    }
    let (mut inbox, mut copied) = (rabbit.consume(&orders).await, rabbit.consume(&copies).await);
    // Its capture exists, and then nothing can be parked for longer than it may live.
    rabbit.publish_with_key(&exchange, "main", delayed(1), b"first").await;
    inbox.next().await;
    redis.set(Weather { silent: true, ..Default::default() });
    let list = AMQPValue::FieldArray(FieldArray::from(vec![text("copy")]));
    let sent = headers([("x-delay", AMQPValue::LongInt(10)), ("BCC", list)]);
    let sent = sent.with_expiration("60".into()).with_priority(5);
    rabbit.publish_with_key(&exchange, "main", sent, b"kept").await;
    let waited = Instant::now();
    assert!(inbox.next_within(Duration::from_millis(500)).await.is_none());
    assert!(waited.elapsed() > Duration::from_millis(60));
    redis.calm();
    redis.reset();
    for inbox in [&mut inbox, &mut copied] {
        let got = inbox.next().await;
        assert_eq!(got.data, b"kept");
        assert_eq!(got.properties.expiration(), &Some("60".into()));
        assert_eq!(got.properties.priority(), &Some(5));
        assert_eq!(header(&got, "BCC"), None, "the broker takes it off, as always");
    }
}

#[tokio::test]
async fn a_delay_counts_from_the_publish_whatever_the_store_is_doing() {
    let (mut sidecar, url) = proxied();
    let redis = FaultProxy::before(&setting("TEST_REDIS_URL")).await;
    sidecar.set("REDIS__URL", &redis.url(&setting("TEST_REDIS_URL")));
    sidecar.start().await;
    let rabbit = Rabbit::connect_to(&url).await;
    let orders = rabbit.destination().await;
    let mut inbox = rabbit.consume(&orders).await;
    rabbit.publish(&orders, delayed(1), b"first").await;
    inbox.next().await;
    redis.set(Weather { silent: true, ..Default::default() });
    let published = now_ms();
    rabbit.publish(&orders, delayed(1_000), b"later").await;
    let confirmed = now_ms();
    assert!(inbox.next_within(Duration::from_millis(3_000)).await.is_none(), "nothing is parked");
    redis.calm();
    redis.reset();
    let got = inbox.next().await;
    let Some(AMQPValue::LongLongInt(due)) = header(&got, "x-delayed-due") else { panic!("no due") };
    assert!((published + 1_000..confirmed + 1_500).contains(&(due as u64)), "{published} {due}");
}

#[tokio::test]
async fn confirms_returns_and_transactions_are_the_brokers_own() {
    let (mut sidecar, url) = proxied();
    sidecar.start().await;
    let rabbit = Rabbit::connect_to(&url).await;
    let orders = rabbit.destination().await;
    let mut inbox = rabbit.consume(&orders).await;
    let publish = |exchange: &str, properties| {
        let options = BasicPublishOptions { mandatory: true, immediate: false };
        rabbit.channel.basic_publish(exchange.into(), "key".into(), options, b"m", properties)
    };
    let unbound = unique("unbound");
    rabbit.declare_exchange(&unbound).await;
    let returned = publish(&unbound, headers([])).await.expect("sent").await.expect("confirmed");
    assert!(returned.take_message().is_some(), "an unroutable publish comes back");
    let held = publish(&unbound, delayed(60_000)).await.expect("sent").await.expect("confirmed");
    assert!(held.take_message().is_none(), "whether a delayed one is routable, its due will tell");
    let channel = rabbit.connection.create_channel().await.expect("a channel");
    channel.tx_select().await.expect("a transaction");
    for (body, commits) in [(&b"rolled back"[..], false), (b"committed", true)] {
        for properties in [headers([]), delayed(100)] {
            let options = BasicPublishOptions::default();
            let publish = channel.basic_publish(
                orders.as_str().into(),
                "key".into(),
                options,
                body,
                properties,
            );
            publish.await.expect("sent");
        }
        if commits {
            channel.tx_commit().await.expect("committed");
        } else {
            channel.tx_rollback().await.expect("rolled back");
        }
    }
    for _ in 0..2 {
        assert_eq!(inbox.next().await.data, b"committed");
    }
    assert!(inbox.next_within(Duration::from_millis(300)).await.is_none());
}

#[tokio::test]
async fn what_is_released_is_not_delayed_again() {
    let (mut sidecar, url) = proxied();
    sidecar.start().await;
    let rabbit = Rabbit::connect_to(&url).await;
    let orders = rabbit.destination().await;
    let mut inbox = rabbit.consume(&orders).await;
    rabbit.publish(&orders, delayed(50), b"retried").await;
    let got = inbox.next().await;
    // As a consumer does that copies all it got into a retry.
    let uid = header(&got, "x-delayed-uid");
    rabbit.publish(&orders, got.properties, &got.data).await;
    let again = inbox.next().await;
    assert_eq!(header(&again, "x-delayed-uid"), uid, "it never was held back");
    assert_eq!(sidecar.metric("xdelay_captured_total"), 1.0);
}
