//! What needs no broker: cutting frames, putting deliveries together, the verdict on a message.

mod scripted;

use amq_protocol::frame::{AMQPFrame, parse_frame};
use amq_protocol::protocol::BasicProperties;
use amq_protocol::protocol::basic::gen_properties;
use amq_protocol::types::{AMQPValue, FieldTable};

use super::delivery::Assembly;
use super::frames::{FrameReader, encode};
use super::handshake::FRAME_MAX;
use super::{RawDelivery, RawError};

/// No properties at all.
const BARE: [u8; 2] = [0, 0];
const HEADERS: u8 = 0x20;
const CORRELATION_ID: u8 = 0x04;

fn frame(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap();
    let lead = [&[kind][..], &channel.to_be_bytes(), &length.to_be_bytes()].concat();
    [&lead, payload, &[0xCE]].concat()
}

fn short(bytes: &[u8]) -> Vec<u8> {
    [&[u8::try_from(bytes.len()).unwrap()], bytes].concat()
}

fn deliver(tag: u64, exchange: &[u8], routing_key: &[u8]) -> Vec<u8> {
    let mut payload = vec![0, 60, 0, 60];
    payload.extend(short(b"a-tag"));
    payload.extend(tag.to_be_bytes());
    payload.push(1);
    payload.extend(short(exchange));
    payload.extend(short(routing_key));
    frame(1, 1, &payload)
}

fn header(size: u64, properties: &[u8]) -> Vec<u8> {
    frame(2, 1, &[&[0, 60, 0, 0][..], &size.to_be_bytes(), properties].concat())
}

/// A delivery's frames, the body in pieces of two bytes.
fn message(tag: u64, routing_key: &[u8], properties: &[u8], body: &[u8]) -> Vec<u8> {
    let mut bytes = deliver(tag, b"orders", routing_key);
    bytes.extend(header(body.len() as u64, properties));
    for part in body.chunks(2) {
        bytes.extend(frame(3, 1, part));
    }
    bytes
}

fn delivery(tag: u64, routing_key: &[u8], properties: &[u8], body: &[u8]) -> RawDelivery {
    RawDelivery {
        tag,
        redelivered: true,
        exchange: b"orders".to_vec(),
        routing_key: routing_key.to_vec(),
        properties: properties.to_vec(),
        body: body.to_vec(),
    }
}

/// Properties with one header, its value a string that is not UTF-8 (which is allowed).
fn one_header(name: &[u8]) -> Vec<u8> {
    let entry = [&short(name)[..], b"S\0\0\0\x02\xff\xfe"].concat();
    [&[HEADERS, 0][..], &long(&entry)].concat()
}

fn correlated(id: &[u8]) -> Vec<u8> {
    [&[CORRELATION_ID, 0][..], &short(id)].concat()
}

fn collect(pieces: &[&[u8]]) -> Result<Vec<RawDelivery>, RawError> {
    let mut reader = FrameReader::new(FRAME_MAX);
    let mut assembly = Assembly::default();
    let mut found = Vec::new();
    for piece in pieces {
        reader.extend(piece);
        while let Some(frame) = reader.next()? {
            found.extend(assembly.feed(&frame)?);
        }
    }
    assert!(assembly.is_idle());
    Ok(found)
}

#[test]
fn frames_may_be_split_anywhere() {
    let poison = one_header(b"caf\xe9");
    let stream = [
        message(7, b"key", &poison, b"hello"),
        message(8, b"key\xff", &BARE, b""),
        message(u64::MAX, b"", &correlated(b"\xff"), b"x"),
    ]
    .concat();
    let expected = vec![
        delivery(7, b"key", &poison, b"hello"),
        delivery(8, b"key\xff", &BARE, b""),
        delivery(u64::MAX, b"", &correlated(b"\xff"), b"x"),
    ];
    for at in 0..=stream.len() {
        let (front, back) = stream.split_at(at);
        assert_eq!(collect(&[front, back]).unwrap(), expected, "split at {at}");
    }
    let single: Vec<&[u8]> = stream.chunks(1).collect();
    assert_eq!(collect(&single).unwrap(), expected);
}

#[test]
fn names_and_short_strings_that_are_not_utf8_are_undecodable() {
    for (key, properties, word) in [
        (&b"key"[..], one_header(b"caf\xe9"), "headers"),
        (b"key", correlated(b"\xff\xfe"), "correlation_id"),
        (b"k\xff", BARE.to_vec(), "routing key"),
        (b"key", vec![CORRELATION_ID, 0, 9, b'x'], "cut short"),
        (b"key", vec![0, 0, 0], "too many"),
        (b"key", vec![0], "cut short"),
    ] {
        let reason = delivery(1, key, &properties, b"").undecodable();
        assert!(reason.as_ref().unwrap().contains(word), "{word}: {reason:?}");
    }
    let mut named = delivery(1, b"", &BARE, b"");
    named.exchange = b"\xe9".to_vec();
    assert!(named.undecodable().unwrap().contains("exchange"));
}

#[test]
fn what_lapin_decodes_is_left_alone() {
    let mut table = FieldTable::default();
    table.insert("x-delay".into(), AMQPValue::LongInt(5000));
    table.insert("naïve".into(), AMQPValue::LongString(vec![0xff].into()));
    let full = BasicProperties::default()
        .with_content_type("text/plain".into())
        .with_headers(table)
        .with_delivery_mode(2)
        .with_correlation_id("ä".into())
        .with_timestamp(1)
        .with_cluster_id("c".into());
    let (full, _) = gen_properties(&full)(Vec::new().into()).unwrap().into_inner();
    for properties in [BARE.to_vec(), full, one_header("é".as_bytes()), correlated(b"")] {
        let found = delivery(1, "schlüssel".as_bytes(), &properties, b"\xff").undecodable();
        assert_eq!(found, None, "{properties:?}");
    }
}

/// lapin reads with `parse_frame`; both must always agree, or a message would be refused by one
/// side and left alone by the other, for ever.
#[test]
fn the_verdict_is_that_of_lapins_parser() {
    let whole = [
        one_header(b"plain"),
        one_header(b"caf\xe9"),
        correlated(b"id"),
        correlated(b"\xc3"),
        [&[0xff, 0xfc][..], &[0; 30]].concat(),
        b"\x20\0\0\0\0\x04\x01a?\0".to_vec(),
    ];
    // Cut at every length and with each single byte spoilt: most of these are broken somewhere.
    for properties in &whole {
        for at in 2..=properties.len() {
            let mut spoilt = properties.clone();
            spoilt[at - 1] ^= 0xA5;
            for sample in [properties[..at].to_vec(), spoilt] {
                let ours = delivery(1, b"", &sample, b"").undecodable();
                let theirs = parse_frame(&header(0, &sample)[..]).is_err();
                assert_eq!(ours.is_some(), theirs, "{sample:?}: {ours:?}");
            }
        }
    }
}

/// A length, then the bytes.
fn long(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap();
    [&length.to_be_bytes()[..], bytes].concat()
}

/// Properties with one header, an array or table that has so many others within each other.
fn nested(levels: usize, kind: u8) -> Vec<u8> {
    let name: &[u8] = if kind == b'F' { b"\x01n" } else { b"" };
    let innermost = vec![kind, 0, 0, 0, 0];
    let value = (0..levels)
        .fold(innermost, |inner, _| [&[kind][..], &long(&[name, &inner].concat())].concat());
    [&[HEADERS, 0][..], &long(&[b"\x01n", &value[..]].concat())].concat()
}

/// The parser would end the process on some of these.
#[test]
fn deep_nesting_is_found_without_following_it() {
    for kind in [b'A', b'F'] {
        for (levels, deep) in [(0, false), (126, false), (127, true), (5_000, true)] {
            let reason = delivery(1, b"", &nested(levels, kind), b"").undecodable();
            assert_eq!(reason.is_some(), deep, "{levels}: {reason:?}");
            assert!(reason.is_none_or(|reason| reason.contains("nested")));
        }
    }
    // Side by side they are no deeper than one.
    let flat = long(&b"\x01nA\0\0\0\0".repeat(5_000));
    let flat = [&[HEADERS, 0][..], &flat].concat();
    assert_eq!(delivery(1, b"", &flat, b"").undecodable(), None);
}

#[test]
fn nonsense_is_refused() {
    let many = 512 * 1024 * 1024 + 1;
    let large = [deliver(3, b"", b""), header(many, &BARE)].concat();
    assert!(matches!(
        collect(&[&large]),
        Err(RawError::BodyTooLarge { tag: 3, size }) if size == many
    ));
    let longer = [deliver(1, b"", b""), header(1, &BARE), frame(3, 1, b"xy")].concat();
    for nonsense in [
        longer,
        header(0, &BARE),
        deliver(1, b"", b"").repeat(2),
        frame(1, 1, &[0, 60, 0, 60, 200]),
        b"AMQP\0\0\x09\x01".to_vec(),
        b"\x63\0\0\0\0\0\0\xCE".to_vec(),
        b"\x08\0\0\0\0\0\0\0".to_vec(),
        // Refused by its length alone, before its payload is here.
        b"\x03\0\x01\xff\xff\xff\xff".to_vec(),
    ] {
        let found = collect(&[&nonsense]);
        assert!(matches!(found, Err(RawError::Protocol(_))), "{nonsense:?}");
    }
}

#[test]
fn what_is_sent_can_be_read() {
    let sent = AMQPFrame::Heartbeat;
    let bytes = encode(&sent).unwrap();
    assert_eq!(parse_frame(&bytes[..]), Ok((&[][..], sent)));
}
