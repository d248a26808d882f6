//! What comes out is what went in, but for what is meant to be changed.

use amq_protocol::frame::{AMQPFrame, parse_frame};
use amq_protocol::protocol::{AMQPClass, basic};
use lapin::BasicProperties;
use lapin::types::AMQPValue;

use super::support::{Heard, Tap, at_port, proxied_to};
use crate::support::rabbit::{Rabbit, header, headers, table};
use crate::support::{eventually, setting, unique};

/// A proxy with a tap on either side.
async fn tapped() -> (crate::support::sidecar::Sidecar, Tap, Tap, String) {
    let broker = setting("TEST_AMQP_URL");
    let behind = Tap::before(&broker).await;
    let (mut sidecar, proxy) = proxied_to(&at_port(&broker, behind.port));
    sidecar.start().await;
    let before = Tap::before(&proxy).await;
    let url = at_port(&proxy, before.port);
    (sidecar, before, behind, url)
}

/// The connection that carried these bytes, on either side of the proxy, once the two agree on what
/// the broker sent: the last of it may still be on its way when the client has closed. Behind the
/// proxy xdelay's own connections pass too, and one of them released these bytes.
async fn heard_by_both(before: &Tap, behind: &Tap, what: &[u8]) -> (Heard, Heard) {
    eventually("what the broker sent has passed unchanged", || async {
        let sent = before.those_that_sent(what).remove(0);
        let behind = behind.those_that_sent(what).into_iter();
        let came = behind.into_iter().find(|came| came.answered == sent.answered)?;
        Some((sent, came))
    })
    .await
}

/// The frames after the protocol header.
fn frames(mut bytes: &[u8]) -> Vec<AMQPFrame> {
    let mut frames = Vec::new();
    while let Ok((rest, frame)) = parse_frame(bytes) {
        frames.push(frame);
        bytes = rest;
    }
    assert!(bytes.is_empty(), "all of it is frames");
    frames
}

#[tokio::test]
async fn undelayed_traffic_passes_byte_for_byte_in_both_directions() {
    let (_sidecar, before, behind, url) = tapped().await;
    let rabbit = Rabbit::connect_to(&url).await;
    let orders = rabbit.destination().await;
    let mut inbox = rabbit.consume(&orders).await;
    let mark = unique("mark");
    let large: Vec<u8> = (0..3 << 20).map(|n: u32| (n % 251) as u8).collect();
    for (body, properties) in [
        (mark.as_bytes(), BasicProperties::default()),
        (b"", headers([])),
        (b"zero", headers([("x-delay", AMQPValue::LongInt(0))])),
        (b"negative", headers([("x-delay", AMQPValue::LongLongInt(-300))])),
        (b"past", headers([("x-deliver-at", AMQPValue::LongLongInt(1))])),
        (&large, headers([("nested", AMQPValue::FieldTable(table([])))])),
    ] {
        rabbit.publish(&orders, properties, body).await;
        assert!(inbox.next().await.data == body);
    }
    rabbit.connection.close(200, "bye".into()).await.expect("closed");
    let (sent, came) = heard_by_both(&before, &behind, mark.as_bytes()).await;
    assert!(sent.sent == came.sent, "what the client sent");
}

#[tokio::test]
async fn of_a_delayed_publish_exactly_what_is_meant_is_changed() {
    let (_sidecar, before, behind, url) = tapped().await;
    let rabbit = Rabbit::connect_to(&url).await;
    let orders = rabbit.destination().await;
    let mut inbox = rabbit.consume(&orders).await;
    let mark = unique("mark");
    rabbit.publish(&orders, headers([]), b"at once").await;
    let delayed = headers([("x-delay", AMQPValue::LongInt(50)), ("other", AMQPValue::Void)]);
    rabbit.publish(&orders, delayed, mark.as_bytes()).await;
    for _ in 0..2 {
        inbox.next().await;
    }
    rabbit.connection.close(200, "bye".into()).await.expect("closed");
    let (sent, came) = heard_by_both(&before, &behind, mark.as_bytes()).await;
    let (sent, came) = (frames(&sent.sent), frames(&came.sent));
    assert_eq!(sent.len(), came.len(), "no frame is added or taken");
    let changed: Vec<_> = sent.iter().zip(&came).filter(|(sent, came)| sent != came).collect();
    let [(published, moved), (header, stamped)] = changed[..] else { panic!("{changed:?}") };
    let exchange = |frame: &AMQPFrame| match frame {
        AMQPFrame::Method(_, AMQPClass::Basic(basic::AMQPMethod::Publish(publish))) => {
            publish.clone()
        }
        other => panic!("{other:?}"),
    };
    let mut expected = exchange(published);
    expected.exchange = format!("xdelay.{orders}").as_str().into();
    assert_eq!(exchange(moved), expected);
    let (AMQPFrame::Header(_, header), AMQPFrame::Header(_, stamped)) = (header, stamped) else {
        panic!("{changed:?}");
    };
    let mut found = stamped.properties.headers().clone().expect("headers").inner().clone();
    assert!(found.remove("x-delay-stamp").is_some());
    let unstamped = stamped.properties.clone().with_headers(found.into());
    assert_eq!((stamped.body_size, unstamped), (header.body_size, header.properties.clone()));
}

#[tokio::test]
async fn a_stamp_never_reaches_a_consumer() {
    let (_sidecar, _before, _behind, url) = tapped().await;
    let rabbit = Rabbit::connect_to(&url).await;
    let orders = rabbit.destination().await;
    let mut inbox = rabbit.consume(&orders).await;
    let forged = AMQPValue::LongString("1 0 0 - - -".into());
    for exchange in [&orders, &format!("xdelay.{orders}")] {
        let delay = AMQPValue::LongInt(20);
        let properties = headers([("x-delay", delay), ("x-delay-stamp", forged.clone())]);
        rabbit.publish(exchange, properties, b"later").await;
        let got = inbox.next().await;
        assert!(header(&got, "x-delayed-uid").is_some());
        assert_eq!(header(&got, "x-delay-stamp"), None);
    }
}
