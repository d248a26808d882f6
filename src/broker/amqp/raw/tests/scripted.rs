//! The consumer against a scripted broker: what a real one does only seldom or slowly.

use std::time::Duration;

use amq_protocol::frame::AMQPFrame;
use amq_protocol::protocol::{AMQPClass, basic, channel, connection};
use lapin::uri::AMQPUri;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use super::super::{RawConsumer, RawError};
use super::{correlated, delivery, message};
use crate::broker::amqp::node::Node;
use crate::broker::amqp::scripted::Broker;

const PATIENCE: Duration = Duration::from_secs(10);

/// Plays the broker until the consumer is there.
async fn welcome(stream: TcpStream, heartbeat: u16) -> Broker {
    let mut broker = Broker::greet(stream, heartbeat).await;
    broker.method().await;
    for answer in [
        AMQPClass::Channel(channel::AMQPMethod::OpenOk(channel::OpenOk {})),
        AMQPClass::Basic(basic::AMQPMethod::QosOk(basic::QosOk {})),
    ] {
        broker.say(1, answer).await;
        broker.method().await;
    }
    let ok = basic::ConsumeOk::default();
    broker.say(1, AMQPClass::Basic(basic::AMQPMethod::ConsumeOk(ok))).await;
    broker
}

async fn meet(heartbeat: u16) -> (RawConsumer, Broker) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("amqp://{}/%2f", listener.local_addr().unwrap());
    let node = Node::from(uri.parse::<AMQPUri>().unwrap());
    let welcome = async {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        welcome(stream, heartbeat).await
    };
    let (consumer, broker) =
        tokio::join!(RawConsumer::open(&node, "test", "queue", 5, PATIENCE), welcome);
    (consumer.unwrap(), broker)
}

#[tokio::test]
async fn a_cancelled_next_loses_nothing() {
    let (mut consumer, mut broker) = meet(0).await;
    let stream = [
        message(1, b"k", &correlated(b"\xff"), b"some body"),
        message(2, b"k", &correlated(b"id"), b""),
    ]
    .concat();
    let slow = tokio::spawn(async move {
        let mut tick = tokio::time::interval(Duration::from_millis(1));
        for byte in stream {
            tick.tick().await;
            broker.stream.write_all(&[byte]).await.unwrap();
        }
        broker
    });
    let (mut found, mut cancelled) = (Vec::new(), 0);
    while found.len() < 2 {
        match tokio::time::timeout(Duration::from_millis(3), consumer.next(PATIENCE)).await {
            Ok(delivery) => found.push(delivery.unwrap().unwrap()),
            Err(_) => cancelled += 1,
        }
    }
    assert!(cancelled > 1);
    assert_eq!(found[0], delivery(1, b"k", &correlated(b"\xff"), b"some body"));
    assert_eq!(found[1], delivery(2, b"k", &correlated(b"id"), b""));
    slow.await.unwrap();
}

#[tokio::test]
async fn none_only_between_messages() {
    let (mut consumer, mut broker) = meet(0).await;
    let quiet = Duration::from_millis(20);
    assert_eq!(consumer.next(quiet).await.unwrap(), None);
    let whole = message(1, b"k", &correlated(b"id"), b"body");
    let (front, back) = whole.split_at(whole.len() - 3);
    broker.stream.write_all(front).await.unwrap();
    let rest = async {
        // Well past the quiet time.
        let mut early = tokio::time::interval_at(tokio::time::Instant::now() + 5 * quiet, quiet);
        early.tick().await;
        broker.stream.write_all(back).await.unwrap();
    };
    let (found, ()) = tokio::join!(consumer.next(quiet), rest);
    assert_eq!(found.unwrap().unwrap().body, b"body");
}

#[tokio::test]
async fn heartbeats_are_sent_and_missed() {
    let (mut consumer, mut broker) = meet(1).await;
    let beats = async { [broker.next().await, broker.next().await] };
    let (found, beats) = tokio::join!(consumer.next(PATIENCE), beats);
    assert_eq!(beats, [AMQPFrame::Heartbeat, AMQPFrame::Heartbeat]);
    assert!(matches!(found, Err(RawError::Silent)), "{found:?}");
}

#[tokio::test]
async fn flow_is_answered_and_a_close_is_an_error() {
    let (mut consumer, mut broker) = meet(0).await;
    let blocked = connection::AMQPMethod::Blocked(connection::Blocked::default());
    broker.say(0, AMQPClass::Connection(blocked)).await;
    let flow = channel::AMQPMethod::Flow(channel::Flow { active: false });
    broker.say(1, AMQPClass::Channel(flow)).await;
    let close = connection::Close {
        reply_code: 320,
        reply_text: "going down".into(),
        ..connection::Close::default()
    };
    let close = connection::AMQPMethod::Close(close);
    broker.say(0, AMQPClass::Connection(close)).await;
    let found = consumer.next(PATIENCE).await;
    assert!(
        matches!(&found, Err(RawError::ConnectionClosed { code: 320, text }) if text == "going down"),
        "{found:?}"
    );
    let flow_ok = channel::AMQPMethod::FlowOk(channel::FlowOk { active: false });
    assert_eq!(broker.method().await, AMQPClass::Channel(flow_ok));
    let close_ok = connection::AMQPMethod::CloseOk(connection::CloseOk {});
    assert_eq!(broker.method().await, AMQPClass::Connection(close_ok));
}

#[tokio::test]
async fn closing_passes_over_deliveries_on_their_way() {
    let (mut consumer, mut broker) = meet(0).await;
    consumer.ack(9).await.unwrap();
    let play = async {
        let ack = basic::Ack { delivery_tag: 9, multiple: false };
        assert_eq!(broker.method().await, AMQPClass::Basic(basic::AMQPMethod::Ack(ack)));
        broker.method().await;
        let late = message(1, b"\xff", &correlated(b"\xff"), b"late");
        broker.stream.write_all(&late).await.unwrap();
        let ok = channel::AMQPMethod::CloseOk(channel::CloseOk {});
        broker.say(1, AMQPClass::Channel(ok)).await;
        broker.method().await;
        let ok = connection::AMQPMethod::CloseOk(connection::CloseOk {});
        broker.say(0, AMQPClass::Connection(ok)).await;
    };
    let (closed, ()) = tokio::join!(consumer.close(), play);
    closed.unwrap();
}

#[tokio::test]
async fn a_broker_that_hangs_up_is_an_error() {
    let (mut consumer, broker) = meet(0).await;
    drop(broker);
    assert!(matches!(consumer.next(PATIENCE).await, Err(RawError::Io(_))));
}

#[tokio::test]
async fn a_broker_that_says_nothing_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("amqp://{}/%2f", listener.local_addr().unwrap());
    let node = Node::from(uri.parse::<AMQPUri>().unwrap());
    let opened = RawConsumer::open(&node, "test", "q", 5, Duration::from_millis(50));
    assert!(matches!(opened.await, Err(RawError::Timeout(_))));
}

/// The adapter runs it in spawned tasks.
#[test]
fn consumers_move_between_threads() {
    fn sendable<T: Send>(_: Option<T>) {}
    sendable::<RawConsumer>(None);
}
