//! What the proxy's stamp does to a capture, and what a forged one cannot do.

use std::collections::BTreeMap;

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldArray, FieldTable, LongString, ShortString};

use super::*;
use crate::broker::amqp::properties;

const NOW: UnixMs = 1_700_000_000_000;
const MAX_MS: u64 = 1_000_000;

fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(LongString::from(text))
}

/// Of bytes that a broker may deliver.
fn read_raw(properties: &[u8], rescued_from: Option<&str>) -> Captured {
    let clock = StoreClock::new();
    clock.observe(NOW, std::time::Instant::now());
    let reader = Reader { clock: Arc::new(clock), max_ms: MAX_MS };
    let content = AmqpContent {
        routing_key: Bytes::from_static(b"key"),
        properties: Bytes::copy_from_slice(properties),
        body: Bytes::from_static(b"body"),
    };
    reader.read(content, rescued_from)
}

fn table(headers: &[(&str, AMQPValue)]) -> FieldTable {
    let table = headers.iter().map(|(name, value)| (ShortString::from(*name), value.clone()));
    table.collect::<BTreeMap<_, _>>().into()
}

fn read(headers: &[(&str, AMQPValue)]) -> Captured {
    let properties = BasicProperties::default().with_headers(table(headers));
    read_raw(&properties::encode(&properties), None)
}

/// Headers as they stand, one after the other, and nothing else.
fn listed(fields: &[&[u8]]) -> Vec<u8> {
    let fields = fields.concat();
    [&[0x20, 0][..], &u32::try_from(fields.len()).unwrap().to_be_bytes(), &fields].concat()
}

fn bytes_of(captured: &Captured) -> &AmqpContent {
    let Content::Amqp(content) = &captured.content else { panic!("of RabbitMQ") };
    content
}

fn stamped(stamp: &Stamp, delay: AMQPValue) -> Captured {
    read(&[("x-delay", delay), (STAMP, text(&stamp.encode()))])
}

fn properties_of(captured: &Captured) -> BasicProperties {
    properties::decode(&bytes_of(captured).properties).expect("ours")
}

#[test]
fn a_stamp_gives_uid_due_and_what_it_carried_and_is_taken_off() {
    let mut stamp = Stamp::new(NOW);
    stamp.due = Some(NOW + 4_000);
    stamp.priority = Some(7);
    stamp.expiration = Some("60000".into());
    let copies = AMQPValue::FieldArray(FieldArray::from(vec![text("copy")]));
    let captured = read(&[
        ("x-delay", AMQPValue::LongInt(5_000)),
        (STAMP, text(&stamp.encode())),
        (BCC_CARRIED, copies.clone()),
    ]);
    assert_eq!(captured.wish, Ok(Wish::Hold(When::At(NOW + 4_000), None)));
    assert_eq!((captured.delay_ms, captured.priority), (Some(5_000), 7));
    let properties = properties_of(&captured);
    assert_eq!(properties.priority(), &Some(7));
    assert_eq!(properties.expiration(), &Some("60000".into()));
    let headers = properties.headers().clone().expect("headers");
    assert_eq!(headers.inner().get("BCC"), Some(&copies));
    assert_eq!(headers.inner().len(), 2, "x-delay and BCC");
}

#[test]
fn a_capture_that_comes_again_has_the_same_uid() {
    let stamp = Stamp::new(NOW);
    let delay = AMQPValue::LongInt(5);
    let again = read(&[
        ("x-delay", delay.clone()),
        (STAMP, text(&stamp.encode())),
        ("x-delivery-count", AMQPValue::LongLongInt(1)),
        ("x-acquired-count", AMQPValue::LongLongInt(1)),
    ]);
    let first = stamped(&stamp, delay);
    assert!(first.uid.is_some());
    assert_eq!(first.uid, again.uid);
}

#[test]
fn a_forged_stamp_cannot_take_anothers_uid() {
    let stamp = Stamp::new(NOW);
    let theirs = stamped(&stamp, AMQPValue::LongInt(5));
    let forged = stamped(&stamp, AMQPValue::LongInt(6));
    assert_ne!(theirs.uid, forged.uid);
}

#[test]
fn a_forged_due_is_never_later_than_the_header_asks_for() {
    let mut stamp = Stamp::new(NOW);
    for due in [NOW + 5_000 + 10 * SKEW_MS, u64::MAX] {
        stamp.due = Some(due);
        let captured = stamped(&stamp, AMQPValue::LongInt(5_000));
        assert_eq!(captured.wish, Ok(Wish::Hold(When::In(5_000), None)), "{due}");
    }
    // What the headers forbid stays forbidden.
    stamp.due = Some(NOW);
    let beyond = stamped(&stamp, AMQPValue::LongLongInt(MAX_MS as i64 + 1));
    assert!(beyond.wish.is_err());
    let at_once = stamped(&stamp, AMQPValue::LongInt(0));
    assert_eq!(at_once.wish, Ok(Wish::Hold(When::AtOnce, None)));
}

#[test]
fn what_is_no_stamp_is_taken_off_and_means_nothing() {
    for wrong in [text("1 2 3"), AMQPValue::Void, AMQPValue::LongInt(1)] {
        let bad_copies = (BCC_CARRIED, AMQPValue::LongInt(1));
        let captured = read(&[("x-delay", AMQPValue::LongInt(5)), (STAMP, wrong), bad_copies]);
        assert_eq!(captured.uid, None);
        assert_eq!(captured.wish, Ok(Wish::Hold(When::In(5), None)));
        let headers = properties_of(&captured).headers().clone().expect("headers");
        assert_eq!(headers.inner().len(), 1, "x-delay");
    }
}

const DELAY: &[u8] = b"\x07x-delayI\0\0\0\x05";

#[test]
fn what_capturing_did_not_touch_stays_the_bytes_it_is() {
    // Twice the same name, names that are not UTF-8, and out of order.
    let sent = listed(&[b"\x01zt\x01", b"\x03a\xff\xfeS\0\0\0\x01\xff", DELAY, b"\x01zV"]);
    let captured = read_raw(&sent, None);
    assert_eq!(captured.wish, Ok(Wish::Hold(When::In(5), None)));
    assert_eq!(bytes_of(&captured).properties, sent);
    let marked = listed(&[b"\x01zt\x01", b"\x10x-delivery-countl\0\0\0\0\0\0\0\x01", DELAY]);
    let again = read_raw(&marked, None);
    assert_eq!(bytes_of(&again).properties, listed(&[b"\x01zt\x01", DELAY]));
}

#[test]
fn of_several_headers_of_one_name_the_last_one_counts() {
    let captured = read_raw(&listed(&[b"\x07x-delayI\0\0\0\x09", DELAY]), None);
    assert_eq!(captured.wish, Ok(Wish::Hold(When::In(5), None)));
}

#[test]
fn headers_in_another_order_name_the_same_message() {
    let stamp = Stamp::new(NOW).encode();
    let length = u32::try_from(stamp.len()).unwrap().to_be_bytes();
    let stamp = [b"\x0dx-delay-stampS", &length[..], stamp.as_bytes()].concat();
    let sent = read_raw(&listed(&[b"\x01zV", &stamp, DELAY]), None);
    let again = read_raw(&listed(&[DELAY, &stamp, b"\x01zV"]), None);
    let other = read_raw(&listed(&[DELAY, &stamp, b"\x01yV"]), None);
    assert_eq!(sent.uid, again.uid);
    assert_ne!(sent.uid, other.uid);
    assert_eq!(bytes_of(&sent).properties, listed(&[b"\x01zV", DELAY]), "as it was sent");
}

#[test]
fn what_is_no_list_of_properties_is_kept_as_it_came_with_the_reason() {
    for nonsense in [&b""[..], &[0, 0, 0], &[0x04, 0, 9, b'x'], &listed(&[b"\x01a?"])] {
        let captured = read_raw(nonsense, None);
        assert_eq!(captured.wish.expect_err("unread").label(), "undecodable");
        let Content::Amqp(content) = captured.content else { panic!("of RabbitMQ") };
        assert_eq!(content.properties, nonsense);
    }
}

fn died_in(queue: &str, expiration: Option<&str>) -> AMQPValue {
    let mut death = vec![("queue", text(queue)), ("reason", text("expired"))];
    death.extend(expiration.map(|it| ("original-expiration", text(it))));
    AMQPValue::FieldTable(table(&death))
}

#[test]
fn the_marks_of_the_capture_queue_are_taken_off_and_those_of_others_are_left() {
    let deaths = vec![died_in("park", Some("100")), died_in("theirs", None)];
    let headers = table(&[
        ("x-death", AMQPValue::FieldArray(FieldArray::from(deaths))),
        ("x-first-death-queue", text("theirs")),
        ("x-first-death-reason", text("rejected")),
        ("x-last-death-queue", text("park")),
        ("x-last-death-exchange", text("xdelay.orders")),
    ]);
    let sent = properties::encode(&BasicProperties::default().with_headers(headers));
    assert_eq!(death_reason(&sent, "park"), None, "its producer wished it");
    assert_eq!(death_reason(&sent, "theirs"), Some("expired".to_owned()));
    assert_eq!(death_reason(&sent, "nobodys"), None);
    let properties = properties_of(&read_raw(&sent, Some("park")));
    assert_eq!(properties.expiration(), &Some("100".into()));
    let left = table(&[
        ("x-death", AMQPValue::FieldArray(FieldArray::from(vec![died_in("theirs", None)]))),
        ("x-first-death-queue", text("theirs")),
        ("x-first-death-reason", text("rejected")),
    ]);
    assert_eq!(properties.headers(), &Some(left));
}

#[test]
fn a_message_that_died_in_the_capture_queue_alone_has_no_mark_left() {
    let deaths = FieldArray::from(vec![died_in("park", None)]);
    let headers = table(&[
        ("x-death", AMQPValue::FieldArray(deaths)),
        ("x-first-death-queue", text("park")),
        ("x-last-death-queue", text("park")),
    ]);
    let sent = properties::encode(&BasicProperties::default().with_headers(headers));
    assert_eq!(properties_of(&read_raw(&sent, Some("park"))), BasicProperties::default());
}
