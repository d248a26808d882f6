//! What a message looks like after it was held back: as it was sent, but for the listed changes.

use std::collections::BTreeMap;
use std::time::Duration;

use lapin::BasicProperties;
use lapin::types::{AMQPValue, DecimalValue, FieldArray, FieldTable, ShortString};

use super::support::rabbit::{Rabbit, header, headers, table, text};
use super::support::sidecar::Sidecar;
use super::support::{eventually_is, unique};

/// One of each type that lapin can carry, nested too.
fn all_types() -> FieldTable {
    let array = FieldArray::from(vec![AMQPValue::LongInt(1), text("two"), AMQPValue::Void]);
    table([
        ("boolean", AMQPValue::Boolean(true)),
        ("int8", AMQPValue::ShortShortInt(-8)),
        ("uint8", AMQPValue::ShortShortUInt(200)),
        ("int16", AMQPValue::ShortInt(-1_600)),
        ("uint16", AMQPValue::ShortUInt(60_000)),
        ("int32", AMQPValue::LongInt(-320_000)),
        ("uint32", AMQPValue::LongUInt(4_000_000_000)),
        ("int64", AMQPValue::LongLongInt(-9_000_000_000)),
        ("float", AMQPValue::Float(1.5)),
        ("double", AMQPValue::Double(-2.25)),
        ("decimal", AMQPValue::DecimalValue(DecimalValue { scale: 2, value: 314 })),
        ("text", text("ü")),
        ("bytes", AMQPValue::ByteArray(vec![0, 255, 1].into())),
        ("timestamp", AMQPValue::Timestamp(1_700_000_000)),
        ("void", AMQPValue::Void),
        ("array", AMQPValue::FieldArray(array.clone())),
        ("table", AMQPValue::FieldTable(table([("inner", AMQPValue::FieldArray(array))]))),
        ("CC", AMQPValue::FieldArray(FieldArray::from(vec![text("copy")]))),
    ])
}

#[tokio::test]
async fn properties_headers_and_body_arrive_as_they_were_sent() {
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let mut sidecar = Sidecar::new(&[&orders]);
    sidecar.start().await;
    let mut inbox = rabbit.consume(&orders).await;
    let mut sent_headers = all_types().inner().clone();
    sent_headers.insert("x-delay".into(), AMQPValue::LongInt(250));
    sent_headers.insert("x-delay-id".into(), text("order-7"));
    let sent = BasicProperties::default()
        .with_content_type("application/json".into())
        .with_content_encoding("gzip".into())
        .with_headers(sent_headers.into())
        .with_delivery_mode(1)
        .with_priority(7)
        .with_correlation_id("correlation".into())
        .with_reply_to("reply".into())
        .with_expiration("60000".into())
        .with_message_id("message".into())
        .with_timestamp(1_700_000_000)
        .with_type("kind".into())
        .with_user_id("guest".into())
        .with_app_id("app".into())
        .with_cluster_id("cluster".into());
    let front = format!("xdelay.{orders}");
    rabbit.publish_with_key(&front, "eu.de", sent.clone(), b"\0body\xff").await;
    let got = inbox.next().await;
    assert_eq!((got.exchange.as_str(), got.routing_key.as_str()), (orders.as_str(), "eu.de"));
    assert_eq!(got.data, b"\0body\xff");
    let mut expected = all_types().inner().clone();
    expected.insert("x-delay".into(), AMQPValue::LongInt(-250));
    expected.insert("x-delayed-id".into(), text("order-7"));
    expected.insert("x-delayed-user-id".into(), text("guest"));
    let mut found = got.properties.headers().clone().expect("headers").inner().clone();
    for ours in ["x-delayed-uid", "x-delayed-due"] {
        assert!(found.remove(ours).is_some(), "{ours}");
    }
    assert_eq!(found, expected);
    assert_eq!(but_headers(&got.properties), but_headers(&sent));
    assert_eq!(got.properties.user_id(), &None);
}

/// All properties that must not change.
fn but_headers(properties: &BasicProperties) -> Vec<String> {
    vec![
        format!("{:?}", properties.content_type()),
        format!("{:?}", properties.content_encoding()),
        format!("{:?}", properties.delivery_mode()),
        format!("{:?}", properties.priority()),
        format!("{:?}", properties.correlation_id()),
        format!("{:?}", properties.reply_to()),
        format!("{:?}", properties.expiration()),
        format!("{:?}", properties.message_id()),
        format!("{:?}", properties.timestamp()),
        format!("{:?}", properties.kind()),
        format!("{:?}", properties.app_id()),
        format!("{:?}", properties.cluster_id()),
    ]
}

#[tokio::test]
async fn empty_and_huge_bodies_arrive_whole() {
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let mut sidecar = Sidecar::new(&[&orders]);
    sidecar.start().await;
    let mut inbox = rabbit.consume(&orders).await;
    let front = format!("xdelay.{orders}");
    let huge: Vec<u8> = (0..16 << 20).map(|n: u32| (n % 251) as u8).collect();
    for body in [&b""[..], &huge] {
        rabbit.publish(&front, headers([("x-delay", AMQPValue::LongInt(50))]), body).await;
        let got = inbox.next().await;
        assert!(got.data == body, "{} bytes came of {}", got.data.len(), body.len());
    }
}

/// What becomes of a delay value.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Delayed,
    AtOnce,
    Buried,
}

/// What the plugin makes of each value, with our deviations. RabbitMQ itself hangs up on a
/// producer that sends NaN or infinity, so those are left to the tests of `delay`.
fn delay_values() -> Vec<(&'static str, AMQPValue, Fate)> {
    use AMQPValue as V;
    use Fate::{AtOnce, Buried, Delayed};
    vec![
        ("int32", V::LongInt(300), Delayed),
        ("int64", V::LongLongInt(300), Delayed),
        ("uint32", V::LongUInt(300), Delayed),
        ("int16", V::ShortInt(300), Delayed),
        ("uint16", V::ShortUInt(300), Delayed),
        ("uint8", V::ShortShortUInt(200), Delayed),
        ("int8", V::ShortShortInt(100), Delayed),
        ("digits", text("300"), Delayed),
        ("negative digits", text("-300"), AtOnce),
        ("word", text("abc"), Buried),
        ("empty text", text(""), Buried),
        ("decimal point", text("1.5"), Buried),
        ("blank", text(" 300"), Buried),
        ("double", V::Double(300.7), Delayed),
        ("float", V::Float(300.5), Delayed),
        ("decimal", V::DecimalValue(DecimalValue { scale: 0, value: 300 }), Buried),
        ("bytes", V::ByteArray(b"300".to_vec().into()), Delayed),
        ("timestamp", V::Timestamp(300), Buried),
        ("boolean", V::Boolean(true), Buried),
        ("table", V::FieldTable(table([])), Buried),
        ("array", V::FieldArray(FieldArray::default()), Buried),
        ("void", V::Void, Buried),
        ("zero", V::LongInt(0), AtOnce),
        ("negative", V::LongInt(-1), AtOnce),
        ("beyond delay.max", V::LongLongInt(315_360_000_001), Buried),
    ]
}

#[tokio::test]
async fn every_kind_of_delay_value_has_its_fate() {
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let mut sidecar = Sidecar::new(&[&orders]);
    sidecar.start().await;
    let mut inbox = rabbit.consume(&orders).await;
    let front = format!("xdelay.{orders}");
    let values = delay_values();
    for (name, value, _) in &values {
        let properties = headers([("x-delay", value.clone())]);
        rabbit.publish(&front, properties, name.as_bytes()).await;
    }
    let count = |fate| values.iter().filter(|(_, _, f)| *f == fate).count();
    let mut fates = BTreeMap::new();
    for _ in 0..values.len() - count(Fate::Buried) {
        let got = inbox.next().await;
        let name = String::from_utf8_lossy(&got.data).into_owned();
        let sent = values.iter().find(|(n, _, _)| *n == name).expect("sent");
        let delay = header(&got, "x-delay").expect("a delay");
        // What was delayed has it negated; what was not has it as it was sent.
        let fate = if delay == sent.1 { Fate::AtOnce } else { Fate::Delayed };
        assert!(fate == Fate::AtOnce || matches!(delay, AMQPValue::LongInt(ms) if ms < 0));
        fates.insert(name, fate);
    }
    let buried = count(Fate::Buried) as f64;
    eventually_is(buried, || async { sidecar.metric("xdelay_dead") }).await;
    for (name, _, fate) in &values {
        let found = fates.get(*name).copied().unwrap_or(Fate::Buried);
        assert_eq!((name, found), (name, *fate));
    }
    assert!(inbox.next_within(Duration::from_millis(300)).await.is_none(), "no more came");
}

#[tokio::test]
async fn the_plugins_ways_with_bad_values_can_be_had() {
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let mut sidecar = Sidecar::new(&[&orders]);
    sidecar.set("DELAY__ON_INVALID", "forward");
    sidecar.start().await;
    let mut inbox = rabbit.consume(&orders).await;
    let front = format!("xdelay.{orders}");
    rabbit.publish(&front, headers([("x-delay", text("soon"))]), b"odd").await;
    let got = inbox.next().await;
    assert_eq!(header(&got, "x-delay"), Some(text("soon")));
}

#[tokio::test]
async fn an_absolute_due_is_kept_to_and_not_passed_on() {
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let mut sidecar = Sidecar::new(&[&orders]);
    sidecar.start().await;
    let mut inbox = rabbit.consume(&orders).await;
    let front = format!("xdelay.{orders}");
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("after 1970");
    let at = i64::try_from(now.as_millis()).expect("before 292 million") + 3_000;
    let both =
        headers([("x-deliver-at", AMQPValue::LongLongInt(at)), ("x-delay", text("rubbish"))]);
    rabbit.publish(&front, both, b"at").await;
    let got = inbox.next().await;
    assert_eq!(header(&got, "x-delayed-due"), Some(AMQPValue::LongLongInt(at)));
    assert_eq!(header(&got, "x-deliver-at"), None);
    // What is told of the delay is reckoned from the clock as last seen.
    assert!(matches!(header(&got, "x-delay"), Some(AMQPValue::LongInt(-3_200..=-1))));
    let past = headers([("x-deliver-at", text("2001-01-01T00:00:00Z"))]);
    rabbit.publish(&front, past, b"past").await;
    assert_eq!(inbox.next().await.data, b"past");
}

#[tokio::test]
async fn an_id_reschedules_and_a_cancel_is_consumed() {
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let mut sidecar = Sidecar::new(&[&orders]);
    sidecar.start().await;
    let mut inbox = rabbit.consume(&orders).await;
    let front = format!("xdelay.{orders}");
    let with_id = |ms, id| headers([("x-delay", AMQPValue::LongInt(ms)), ("x-delay-id", text(id))]);
    rabbit.publish(&front, with_id(4_000, "a"), b"first").await;
    rabbit.publish(&front, with_id(3_000, "a"), b"second").await;
    rabbit.publish(&front, with_id(3_000, "b"), b"cancelled").await;
    rabbit.publish(&front, headers([("x-delay-cancel", text("b"))]), b"cancel").await;
    rabbit.publish(&front, with_id(3_500, "c"), b"third").await;
    let got = inbox.next().await;
    assert_eq!(got.data, b"second");
    assert_eq!(header(&got, "x-delayed-id"), Some(text("a")));
    assert_eq!(header(&got, "x-delay-id"), None, "a retry must not replace by accident");
    assert_eq!(inbox.next().await.data, b"third");
    assert_eq!(sidecar.metric("xdelay_cancelled_total"), 1.0);
    assert_eq!(sidecar.metric("xdelay_replaced_total"), 1.0);
}

#[tokio::test]
async fn headers_that_a_consumer_copied_into_a_retry_do_no_harm() {
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let mut sidecar = Sidecar::new(&[&orders]);
    sidecar.start().await;
    let mut inbox = rabbit.consume(&orders).await;
    let front = format!("xdelay.{orders}");
    let id = unique("id");
    let first = headers([("x-delay", AMQPValue::LongInt(100)), ("x-delay-id", text(&id))]);
    rabbit.publish(&front, first, b"once").await;
    let got = inbox.next().await;
    let uid = header(&got, "x-delayed-uid");
    let copied: BTreeMap<ShortString, AMQPValue> =
        got.properties.headers().clone().expect("headers").inner().clone();
    rabbit.publish(&front, got.properties.clone(), b"not delayed again").await;
    let forwarded = inbox.next().await;
    assert_eq!(forwarded.data, b"not delayed again");
    let mut retry = copied;
    retry.insert("x-delay".into(), AMQPValue::LongInt(100));
    let retry = got.properties.with_headers(retry.into());
    rabbit.publish(&front, retry, b"again").await;
    let again = inbox.next().await;
    assert_ne!(header(&again, "x-delayed-uid"), uid, "a new message has a uid of its own");
    assert_eq!(header(&again, "x-delayed-id"), None);
}
