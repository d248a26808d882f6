//! Deliveries from scripted bytes, and a channel that meets a scripted broker.

use std::time::Duration;

use amq_protocol::protocol::{AMQPClass, basic, channel};
use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use super::*;
use crate::broker::amqp::connection::FrameReader;
use crate::broker::amqp::scripted::{Broker, meet};

const PATIENCE: Duration = Duration::from_secs(10);
const FRAME_MAX: u32 = 131_072;
/// Long enough for what is there already.
const SOON: Duration = Duration::from_millis(50);
/// No properties at all.
const BARE: [u8; 2] = [0, 0];
const CORRELATION_ID: u8 = 0x04;

fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap();
    let lead = [&[kind, 0, 1][..], &length.to_be_bytes()].concat();
    [&lead, payload, &[0xCE]].concat()
}

fn short(bytes: &[u8]) -> Vec<u8> {
    [&[u8::try_from(bytes.len()).unwrap()], bytes].concat()
}

/// A length, then the bytes.
fn long(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap();
    [&length.to_be_bytes()[..], bytes].concat()
}

fn deliver(tag: u64, exchange: &[u8], routing_key: &[u8]) -> Vec<u8> {
    let mut payload = vec![0, 60, 0, 60];
    payload.extend(short(b"a-tag"));
    payload.extend(tag.to_be_bytes());
    payload.push(1);
    payload.extend(short(exchange));
    payload.extend(short(routing_key));
    frame(1, &payload)
}

fn header(size: u64, properties: &[u8]) -> Vec<u8> {
    frame(2, &[&[0, 60, 0, 0][..], &size.to_be_bytes(), properties].concat())
}

/// A delivery's frames, the body in pieces of so many bytes.
fn message(of: &Delivered, piece: usize) -> Vec<u8> {
    let mut bytes = deliver(of.tag, &of.exchange, &of.routing_key);
    bytes.extend(header(of.body.len() as u64, &of.properties));
    for part in of.body.chunks(piece) {
        bytes.extend(frame(3, part));
    }
    bytes
}

fn delivered(tag: u64, routing_key: &[u8], properties: &[u8], body: &[u8]) -> Delivered {
    let of = Bytes::copy_from_slice;
    Delivered {
        tag,
        exchange: of(b"orders"),
        routing_key: of(routing_key),
        properties: of(properties),
        body: of(body),
    }
}

/// Properties with one header, its value a string that is not UTF-8 (which is allowed).
fn one_header(name: &[u8]) -> Vec<u8> {
    let entry = [&short(name)[..], b"S\0\0\0\x02\xff\xfe"].concat();
    [&[0x20, 0][..], &long(&entry)].concat()
}

/// Properties with one header, arrays that have so many others within each other.
fn nested(levels: u32) -> Vec<u8> {
    let value =
        (0..levels).rev().flat_map(|inner| [&[b'A'][..], &(inner * 5).to_be_bytes()].concat());
    [&[0x20, 0][..], &long(&[&b"\x01n"[..], &value.collect::<Vec<_>>()].concat())].concat()
}

fn correlated(id: &[u8]) -> Vec<u8> {
    [&[CORRELATION_ID, 0][..], &short(id)].concat()
}

fn collect(pieces: &[&[u8]]) -> Result<Vec<Delivered>, RawError> {
    let mut reader = FrameReader::new(FRAME_MAX);
    let mut consuming = Consuming::default();
    for piece in pieces {
        reader.extend(piece);
        while let Some(frame) = reader.next()? {
            consuming.hear(&frame)?;
        }
    }
    assert!(matches!(consuming.assembly, Assembly::Idle));
    Ok(consuming.arrived)
}

#[test]
fn frames_may_be_split_anywhere_and_carry_any_bytes() {
    let expected = vec![
        delivered(7, b"key", &one_header(b"caf\xe9"), b"hello"),
        delivered(8, b"key\xff", &BARE, b""),
        delivered(u64::MAX, b"", &correlated(b"\xff"), b"x"),
        delivered(9, b"", b"\xff\xff\x07", b"properties that are none"),
    ];
    for piece in [2, 100] {
        let stream: Vec<u8> = expected.iter().flat_map(|it| message(it, piece)).collect();
        for at in 0..=stream.len() {
            let (front, back) = stream.split_at(at);
            assert_eq!(collect(&[front, back]).unwrap(), expected, "split at {at}");
        }
        let single: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(collect(&single).unwrap(), expected);
    }
}

#[test]
fn deep_nesting_is_carried_without_following_it() {
    let deep = delivered(1, b"", &nested(20_000), b"");
    assert_eq!(collect(&[&message(&deep, 1)]).unwrap(), [deep]);
}

#[test]
fn nonsense_is_refused() {
    let many = 512 * 1024 * 1024 + 1;
    let large = [deliver(3, b"", b""), header(many, &BARE)].concat();
    assert!(matches!(
        collect(&[&large]),
        Err(RawError::BodyTooLarge { tag: 3, size }) if size == many
    ));
    let longer = [deliver(1, b"", b""), header(1, &BARE), frame(3, b"xy")].concat();
    for nonsense in [
        longer,
        header(0, &BARE),
        deliver(1, b"", b"").repeat(2),
        frame(3, b"x"),
        frame(1, &[0, 60, 0, 60, 200]),
        [deliver(1, b"", b""), frame(2, &[0, 60, 0, 0, 0])].concat(),
    ] {
        let found = collect(&[&nonsense]);
        assert!(matches!(found, Err(RawError::Protocol(_))), "{nonsense:?}");
    }
}

/// A channel that consumes, and the broker that it consumes from.
async fn meet_consuming() -> (Subscriber, Channel, Broker) {
    let (subscriber, mut broker): (Subscriber, _) = meet(0).await;
    let play = async {
        broker.open_channel().await;
        assert!(matches!(
            broker.method().await,
            AMQPClass::Basic(basic::AMQPMethod::Qos(basic::Qos { prefetch_count: 5, .. }))
        ));
        broker.say(1, AMQPClass::Basic(basic::AMQPMethod::QosOk(basic::QosOk {}))).await;
        assert!(matches!(
            broker.method().await,
            AMQPClass::Basic(basic::AMQPMethod::Consume(consume)) if consume.queue.as_str() == "q"
        ));
        let ok = basic::ConsumeOk { consumer_tag: "a-tag".into() };
        broker.say(1, AMQPClass::Basic(basic::AMQPMethod::ConsumeOk(ok))).await;
    };
    let consume = async {
        let channel = subscriber.channel().await.unwrap();
        channel.qos(5).await.unwrap();
        assert_eq!(channel.consume("q").await.unwrap().as_str(), "a-tag");
        channel
    };
    let (channel, ()) = tokio::join!(consume, play);
    (subscriber, channel, broker)
}

#[tokio::test]
async fn what_comes_at_once_is_one_batch_and_a_cancelled_wait_loses_nothing() {
    let (_subscriber, channel, mut broker) = meet_consuming().await;
    assert!(timeout(SOON, channel.delivered()).await.is_err());
    let sent = [delivered(1, b"k", &BARE, b"one"), delivered(2, b"k", &BARE, b"two")];
    let third = delivered(3, b"k", &BARE, b"three");
    let bytes = [message(&sent[0], 9), message(&sent[1], 9), message(&third, 9)].concat();
    let (front, back) = bytes.split_at(bytes.len() - 3);
    broker.stream.write_all(front).await.unwrap();
    let mut taken = channel.delivered().await.unwrap();
    while taken.len() < 2 {
        taken.extend(channel.delivered().await.unwrap());
    }
    assert_eq!(taken, sent);
    assert!(timeout(SOON, channel.delivered()).await.is_err(), "only whole messages");
    broker.stream.write_all(back).await.unwrap();
    assert_eq!(channel.delivered().await.unwrap(), [third]);
}

#[tokio::test]
async fn an_ack_is_for_all_up_to_it_and_written_before_the_channel_closes() {
    let (subscriber, channel, mut broker) = meet_consuming().await;
    channel.ack(7).await.unwrap();
    let play = async {
        let ack = basic::Ack { delivery_tag: 7, multiple: true };
        assert_eq!(broker.method().await, AMQPClass::Basic(basic::AMQPMethod::Ack(ack)));
        let close = broker.method().await;
        assert!(matches!(close, AMQPClass::Channel(channel::AMQPMethod::Close(_))), "{close:?}");
        // What is on its way meanwhile goes back to the queue.
        let late = message(&delivered(8, b"k", &BARE, b"late"), 9);
        broker.stream.write_all(&late).await.unwrap();
        let ok = channel::AMQPMethod::CloseOk(channel::CloseOk {});
        broker.say(1, AMQPClass::Channel(ok)).await;
    };
    let ((), ()) = tokio::join!(channel.close(), play);
    let (opened, next) = tokio::join!(timeout(SOON, subscriber.channel()), broker.method());
    assert!(opened.is_err());
    let open = AMQPClass::Channel(channel::AMQPMethod::Open(channel::Open {}));
    assert_eq!(next, open, "a channel is closed once");
}

#[tokio::test]
async fn a_cancel_of_ours_leaves_what_came_before_it() {
    let (_subscriber, channel, mut broker) = meet_consuming().await;
    let last = delivered(1, b"k", &BARE, b"last");
    let play = async {
        let cancel = broker.method().await;
        assert!(matches!(cancel, AMQPClass::Basic(basic::AMQPMethod::Cancel(_))), "{cancel:?}");
        broker.stream.write_all(&message(&last, 9)).await.unwrap();
        let ok = basic::CancelOk { consumer_tag: "a-tag".into() };
        broker.say(1, AMQPClass::Basic(basic::AMQPMethod::CancelOk(ok))).await;
    };
    let tag = Tag::from("a-tag");
    let (cancelled, ()) = tokio::join!(channel.cancel(&tag), play);
    cancelled.unwrap();
    assert_eq!(channel.left(), [last]);
    assert!(channel.left().is_empty());
}

#[tokio::test]
async fn a_cancel_of_the_brokers_is_said_after_what_came_before_it() {
    let (_subscriber, channel, mut broker) = meet_consuming().await;
    let last = delivered(1, b"k", &BARE, b"last");
    broker.stream.write_all(&message(&last, 9)).await.unwrap();
    let cancel = basic::Cancel { consumer_tag: "a-tag".into(), nowait: true };
    broker.say(1, AMQPClass::Basic(basic::AMQPMethod::Cancel(cancel))).await;
    assert_eq!(channel.delivered().await.unwrap(), [last]);
    let why = channel.delivered().await.unwrap_err();
    assert!(why.contains("cancelled the consumer"), "{why}");
    assert!(channel.is_open(), "what it delivered can be acked");
}

#[tokio::test]
async fn a_channel_that_is_closed_says_why_and_gives_out_nothing() {
    let (subscriber, channel, mut broker) = meet_consuming().await;
    let close = channel::Close {
        reply_code: 406,
        reply_text: "PRECONDITION_FAILED - timeout".into(),
        ..channel::Close::default()
    };
    let one = message(&delivered(1, b"k", &BARE, b"one"), 9);
    broker.stream.write_all(&one).await.unwrap();
    broker.say(1, AMQPClass::Channel(channel::AMQPMethod::Close(close))).await;
    let ok = broker.method().await;
    assert!(matches!(ok, AMQPClass::Channel(channel::AMQPMethod::CloseOk(_))), "{ok:?}");
    let why = "PRECONDITION_FAILED - timeout (406)";
    assert_eq!(channel.delivered().await, Err(why.to_owned()), "the broker has it back");
    assert_eq!(channel.ack(1).await, Err(format!("acking: {why}")));
    let (another, ()) = tokio::join!(subscriber.channel(), async {
        broker.method().await;
        let ok = channel::AMQPMethod::OpenOk(channel::OpenOk {});
        broker.say(2, AMQPClass::Channel(ok)).await;
    });
    assert!(another.is_ok(), "others go on");
}

#[tokio::test]
async fn a_lost_connection_ends_whoever_waits() {
    let (_subscriber, channel, broker) = meet_consuming().await;
    let (waited, ()) = tokio::join!(timeout(PATIENCE, channel.delivered()), async { drop(broker) });
    assert!(waited.unwrap().is_err());
}

#[tokio::test]
async fn what_makes_no_sense_ends_the_connection() {
    let (_subscriber, channel, mut broker) = meet_consuming().await;
    broker.stream.write_all(&header(0, &BARE)).await.unwrap();
    let why = channel.delivered().await.unwrap_err();
    assert!(why.contains("out of turn"), "{why}");
}
