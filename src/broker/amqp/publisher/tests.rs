//! A publisher and a broker that is a script: what a real one does only now and then.

use std::time::{Duration, Instant};

use amq_protocol::frame::AMQPFrame;
use amq_protocol::protocol::basic::AMQPProperties;
use amq_protocol::protocol::{AMQPClass, basic, channel, confirm};
use amq_protocol::types::{AMQPValue, FieldTable};
use bytes::Bytes;

use super::*;
use crate::broker::amqp::connection::End;
use crate::broker::amqp::link::{Connect, Standing};
use crate::broker::amqp::outgoing::Outgoing;
use crate::broker::amqp::properties;
use crate::broker::amqp::refusal::Refusal;
use crate::broker::amqp::scripted::{Broker, meet};
use crate::message::Uid;

const PATIENCE: Duration = Duration::from_secs(10);

/// A channel, and the broker that has opened it.
async fn meet_on_channel() -> (Publisher, Channel, Broker) {
    let (publisher, mut broker): (Publisher, _) = meet(0).await;
    let play = async {
        broker.open_channel().await;
        broker.method().await;
        let ok = confirm::AMQPMethod::SelectOk(confirm::SelectOk {});
        broker.say(1, AMQPClass::Confirm(ok)).await;
    };
    let (opened, ()) = tokio::join!(publisher.channel(), play);
    let opened = opened.unwrap();
    (publisher, opened, broker)
}

fn outgoing(body: &'static [u8]) -> Outgoing {
    let uid = Uid::fresh();
    let text = AMQPValue::LongString(uid.to_string().into());
    let mut headers = FieldTable::default();
    headers.insert("x-delayed-uid".into(), text);
    let properties = properties::encode(&AMQPProperties::default().with_headers(headers));
    let routing_key = Bytes::from_static(b"key");
    Outgoing { uid, routing_key, properties: properties.to_vec(), body: Bytes::from_static(body) }
}

/// Reads publishes until it has so many; answers their bodies.
async fn bodies(broker: &mut Broker, count: usize) -> Vec<Vec<u8>> {
    let mut bodies: Vec<Vec<u8>> = Vec::new();
    let mut missing = 0;
    while bodies.len() < count || missing > 0 {
        match broker.next().await {
            AMQPFrame::Method(1, AMQPClass::Basic(basic::AMQPMethod::Publish(publish))) => {
                assert_eq!(publish.exchange.as_str(), "orders");
                assert_eq!(publish.routing_key.as_str(), "key");
                assert!(publish.mandatory);
            }
            AMQPFrame::Header(1, header) => {
                assert!(header.properties.headers().is_some());
                missing = header.body_size as usize;
                bodies.push(Vec::new());
            }
            AMQPFrame::Body(1, part) => {
                missing -= part.len();
                bodies.last_mut().unwrap().extend(part);
            }
            other => panic!("{other}"),
        }
    }
    bodies
}

fn ack(tag: u64, multiple: bool) -> AMQPClass {
    AMQPClass::Basic(basic::AMQPMethod::Ack(basic::Ack { delivery_tag: tag, multiple }))
}

#[tokio::test]
async fn a_batch_goes_out_whole_and_its_answers_come_back_in_place() {
    let (_publisher, channel, mut broker) = meet_on_channel().await;
    // The second is larger than a frame, and than what is written at once.
    let large: &'static [u8] = vec![7; 300_000].leak();
    let batch = [outgoing(b"one"), outgoing(large), outgoing(b"")];
    let returned = batch[1].uid.to_string();
    let play = async {
        assert_eq!(bodies(&mut broker, 3).await, [b"one".to_vec(), large.to_vec(), Vec::new()]);
        let back = basic::Return {
            reply_code: 312,
            reply_text: "NO_ROUTE".into(),
            exchange: "orders".into(),
            routing_key: "key".into(),
        };
        broker.say(1, AMQPClass::Basic(basic::AMQPMethod::Return(back))).await;
        let mut content = vec![0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3];
        content.extend_from_slice(&batch[1].properties);
        broker.say_frame(2, 1, &content).await;
        broker.say_frame(3, 1, b"abc").await;
        broker.say(1, ack(2, true)).await;
        let nack = basic::Nack { delivery_tag: 3, ..basic::Nack::default() };
        broker.say(1, AMQPClass::Basic(basic::AMQPMethod::Nack(nack))).await;
    };
    let publish = channel.publish("orders", &batch, Instant::now() + PATIENCE);
    let (heard, ()) = tokio::join!(publish, play);
    assert_eq!(heard.end, None);
    assert_eq!(heard.answers, [Some(Answer::Ack), Some(Answer::Ack), Some(Answer::Nack)]);
    assert_eq!(heard.returned.keys().collect::<Vec<_>>(), [&returned]);
    assert!(channel.is_open());
}

#[tokio::test]
async fn a_batch_not_heard_out_leaves_its_channel_unusable() {
    let (publisher, channel, mut broker) = meet_on_channel().await;
    let batch = [outgoing(b"one"), outgoing(b"two")];
    let play = async {
        bodies(&mut broker, 2).await;
        broker.say(1, ack(1, false)).await;
    };
    let soon = Instant::now() + Duration::from_millis(300);
    let (heard, ()) = tokio::join!(channel.publish("orders", &batch, soon), play);
    assert_eq!((heard.answers, heard.end), (vec![Some(Answer::Ack), None], Some(End::Late)));
    assert!(!channel.is_open());
    drop(channel);
    let close = broker.method().await;
    assert!(matches!(close, AMQPClass::Channel(channel::AMQPMethod::Close(_))), "{close:?}");
    assert!(publisher.is_connected(), "other channels go on");
}

#[tokio::test]
async fn a_publish_that_is_dropped_leaves_its_channel_unusable() {
    let (_publisher, channel, _broker) = meet_on_channel().await;
    let batch = [outgoing(b"one")];
    let publish = channel.publish("orders", &batch, Instant::now() + PATIENCE);
    assert!(tokio::time::timeout(Duration::from_millis(50), publish).await.is_err());
    assert!(!channel.is_open());
}

#[tokio::test]
async fn a_refusal_says_what_the_broker_says_and_is_answered() {
    let (publisher, channel, mut broker) = meet_on_channel().await;
    let batch = [outgoing(b"one"), outgoing(b"two")];
    let play = async {
        bodies(&mut broker, 2).await;
        broker.say(1, ack(1, false)).await;
        let close = channel::Close {
            reply_code: 404,
            reply_text: "NOT_FOUND - no exchange 'orders'".into(),
            ..channel::Close::default()
        };
        broker.say(1, AMQPClass::Channel(channel::AMQPMethod::Close(close))).await;
    };
    let publish = channel.publish("orders", &batch, Instant::now() + PATIENCE);
    let (heard, ()) = tokio::join!(publish, play);
    let text = "NOT_FOUND - no exchange 'orders'".to_owned();
    assert_eq!(heard.end, Some(End::Refused(Refusal { code: 404, text })));
    assert_eq!(heard.answers, [Some(Answer::Ack), None]);
    let ok = broker.method().await;
    assert!(matches!(ok, AMQPClass::Channel(channel::AMQPMethod::CloseOk(_))), "{ok:?}");
    assert!(publisher.is_connected());
}

#[tokio::test]
async fn a_lost_connection_ends_what_waits_on_it() {
    let (publisher, channel, broker) = meet_on_channel().await;
    let batch = [outgoing(b"one")];
    let publish = channel.publish("orders", &batch, Instant::now() + PATIENCE);
    let (heard, ()) = tokio::join!(publish, async { drop(broker) });
    assert!(matches!(heard.end, Some(End::Lost(_))), "{:?}", heard.end);
    let mut standing = publisher.standing();
    standing.wait_for(|standing| matches!(standing, Standing::Lost(_))).await.unwrap();
    assert!(!publisher.is_connected());
}
