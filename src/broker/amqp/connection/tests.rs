//! What every connection does, whatever it is for.

use std::time::Duration;

use amq_protocol::frame::parse_frame;
use lapin::uri::AMQPUri;

use super::*;
use crate::broker::amqp::publisher::Confirming;
use crate::broker::amqp::scripted::meet;
use crate::broker::amqp::subscriber::Subscriber;

#[tokio::test]
async fn a_blocked_connection_says_why_until_it_is_not() {
    use connection::AMQPMethod as Connection;
    let (made, mut broker): (Subscriber, _) = meet(0).await;
    let mut standing = made.standing();
    let blocked = connection::Blocked { reason: "low on memory".into() };
    broker.say(0, AMQPClass::Connection(Connection::Blocked(blocked))).await;
    let low = Standing::Blocked("low on memory".to_owned());
    standing.wait_for(|standing| *standing == low).await.unwrap();
    let unblocked = Connection::Unblocked(connection::Unblocked {});
    broker.say(0, AMQPClass::Connection(unblocked)).await;
    standing.wait_for(|standing| *standing == Standing::Connected).await.unwrap();
}

#[tokio::test]
async fn heartbeats_are_sent_and_missed() {
    let (made, mut broker): (Subscriber, _) = meet(1).await;
    let mut standing = made.standing();
    let beats = async { [broker.next().await, broker.next().await] };
    let lost = standing.wait_for(|standing| matches!(standing, Standing::Lost(_)));
    let (lost, beats) = tokio::join!(lost, beats);
    assert_eq!(beats, [AMQPFrame::Heartbeat, AMQPFrame::Heartbeat]);
    assert_eq!(*lost.unwrap(), Standing::Lost(RawError::Silent.to_string()));
}

#[tokio::test]
async fn flow_is_answered_and_a_close_is_the_end() {
    let (made, mut broker): (Subscriber, _) = meet(0).await;
    let (opened, ()) = tokio::join!(made.open_channel(), broker.open_channel());
    let opened = opened.unwrap();
    let flow = channels::AMQPMethod::Flow(channels::Flow { active: false });
    broker.say(1, AMQPClass::Channel(flow)).await;
    let flow_ok = channels::AMQPMethod::FlowOk(channels::FlowOk { active: false });
    assert_eq!(broker.method().await, AMQPClass::Channel(flow_ok));
    let close = connection::Close {
        reply_code: 320,
        reply_text: "going down".into(),
        ..connection::Close::default()
    };
    broker.say(0, AMQPClass::Connection(connection::AMQPMethod::Close(close))).await;
    let mut standing = made.standing();
    let lost = standing.wait_for(|standing| matches!(standing, Standing::Lost(_)));
    assert_eq!(*lost.await.unwrap(), Standing::Lost("going down (320)".to_owned()));
    assert!(!opened.is_open());
    assert_eq!(opened.state().why_over(), "going down (320)");
}

#[tokio::test]
async fn a_broker_that_says_nothing_is_given_up() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("amqp://{}/%2f", listener.local_addr().unwrap());
    let node = Node::from(uri.parse::<AMQPUri>().unwrap());
    let asked = identify(&node, Duration::from_millis(50)).await;
    assert!(matches!(asked, Err(RawError::Timeout(_))), "{asked:?}");
}

#[test]
fn a_number_is_not_used_again_while_others_are_free() {
    let (controls, _controls_waiting) = mpsc::channel(1);
    let (chunks, _chunks_waiting) = mpsc::channel(1);
    let channels = Mutex::new(Channels::<Confirming>::new(3));
    let standing = watch::Sender::new(Standing::Connected);
    let shared = Arc::new(Shared { channels, controls, chunks, standing });
    let number = || shared.register().map(|(number, _)| number);
    assert_eq!((number(), number()), (Ok(1), Ok(2)));
    shared.forget(1);
    assert_eq!((number(), number()), (Ok(3), Ok(1)));
    assert!(number().is_err());
}

#[test]
fn what_is_no_frame_is_refused() {
    for nonsense in [
        &b"AMQP\0\0\x09\x01"[..],
        b"\x63\0\0\0\0\0\0\xCE",
        b"\x08\0\0\0\0\0\0\0",
        // Refused by its length alone, before its payload is here.
        b"\x03\0\x01\xff\xff\xff\xff",
    ] {
        let mut reader = FrameReader::new(4_096);
        reader.extend(nonsense);
        assert!(matches!(reader.next(), Err(RawError::Protocol(_))), "{nonsense:?}");
    }
}

#[test]
fn what_is_sent_can_be_read() {
    let sent = AMQPFrame::Heartbeat;
    let bytes = encode(&sent).unwrap();
    assert_eq!(parse_frame(&bytes[..]), Ok((&[][..], sent)));
}
