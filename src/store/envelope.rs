//! How a message is packed to be parked: one value, versioned and checked.
//!
//! ```text
//! offset  bytes  field
//! 0       1      version, 1
//! 1       1      kind of content, 1 = AMQP, 2 = Kafka
//! 2       4      CRC-32 of all that follows
//! 6       8      delay asked for in ms, all ones for none
//! 14      1+n    producer's id, n = 0 for none
//! AMQP:   1+n    routing key
//!         4+n    property flags and list, as in a content header frame
//!         rest   body
//! Kafka:  4      partition it was captured on
//!         8      its timestamp in ms, signed, all ones for none
//!         4+n    key, length all ones for null
//!         4+n    headers, packed as in `RecordHeaders`
//!         1      0 when the value is null, else 1
//!         rest   value
//! ```
//!
//! Numbers are big-endian. The destination is not in it: the bucket it lies in says that. Nor is
//! the due, which only the store's clock knows: each store keeps it beside the envelope. Every
//! version ever released is read for ever; one that is newer is left alone (design law of
//! versions: N reads what N-1 parked, and both may run at once).

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::message::{AmqpContent, Content, KafkaContent, Message, ProducerId, RecordHeaders, Uid};

const VERSION: u8 = 1;
const KIND_AMQP: u8 = 1;
const KIND_KAFKA: u8 = 2;
pub(super) const CHECKED_FROM: usize = 6;
const NO_DELAY: u64 = u64::MAX;
const TORN: Fault = Fault::Damaged("a length is wrong");
const NO_TIMESTAMP: i64 = -1;
const NO_KEY: u32 = u32::MAX;

/// Why an envelope cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Written by a newer version of xdelay: left for a process that knows it, never buried.
    #[error("it was parked by a newer version (envelope {version}.{kind})")]
    Newer {
        /// Version byte.
        version: u8,
        /// Kind byte.
        kind: u8,
    },
    /// Not what was written.
    #[error("it is damaged in the store: {0}")]
    Damaged(&'static str),
}

/// What an envelope begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The producer's id.
    pub id: Option<ProducerId>,
    /// The delay asked for, in milliseconds.
    pub delay_ms: Option<u64>,
    /// The routing key, or the beginning of the record's key.
    pub key: Bytes,
}

/// So many bytes at the beginning of an envelope hold all of its head.
pub(super) const HEAD_BYTES: usize = 14 + 256 + 256;

/// Reads the head alone, from at least [`HEAD_BYTES`] or all of an envelope. Its checksum is not
/// looked at: that takes the whole.
pub(super) fn peek(mut envelope: Bytes) -> Result<Head, Fault> {
    let (kind, _) = begin(&mut envelope)?;
    let (id, delay_ms) = take_wish(&mut envelope).ok_or(TORN)?;
    let key = match kind {
        KIND_AMQP => take_short(&mut envelope),
        _ => peek_record_key(envelope),
    };
    Ok(Head { id, delay_ms, key: key.ok_or(TORN)? })
}

/// Reads version, kind and checksum; answers the last two.
fn begin(envelope: &mut Bytes) -> Result<(u8, u32), Fault> {
    if envelope.len() < CHECKED_FROM {
        return Err(Fault::Damaged("it is too short"));
    }
    let (version, kind) = (envelope.get_u8(), envelope.get_u8());
    if version > VERSION || (version == VERSION && kind > KIND_KAFKA) {
        return Err(Fault::Newer { version, kind });
    }
    Ok((kind, envelope.get_u32()))
}

/// The producer's id, and the delay it asked for.
fn take_wish(envelope: &mut Bytes) -> Option<(Option<ProducerId>, Option<u64>)> {
    let delay = envelope.try_get_u64().ok()?;
    let id = take_short(envelope)?;
    Some((ProducerId::new(&id), (delay != NO_DELAY).then_some(delay)))
}

/// As much of a record's key as is there; nothing for null.
fn peek_record_key(mut from: Bytes) -> Option<Bytes> {
    from.try_get_u32().ok()?;
    from.try_get_i64().ok()?;
    match from.try_get_u32().ok()? {
        NO_KEY => Some(Bytes::new()),
        length => Some(from.split_to(from.len().min(length as usize))),
    }
}

/// Packs a message.
pub(super) fn pack(message: &Message) -> Bytes {
    let id = message.id.as_ref().map_or("", ProducerId::as_str);
    let mut out = BytesMut::with_capacity(64 + id.len() + message.size());
    out.put_u8(VERSION);
    out.put_u8(match &message.content {
        Content::Amqp(_) => KIND_AMQP,
        Content::Kafka(_) => KIND_KAFKA,
    });
    out.put_u32(0);
    out.put_u64(message.delay_ms.unwrap_or(NO_DELAY));
    put_short(&mut out, id.as_bytes());
    match &message.content {
        Content::Amqp(amqp) => put_amqp(&mut out, amqp),
        Content::Kafka(record) => put_kafka(&mut out, record),
    }
    let crc = crc32fast::hash(&out[CHECKED_FROM..]);
    out[2..CHECKED_FROM].copy_from_slice(&crc.to_be_bytes());
    out.freeze()
}

/// Unpacks what [`pack`] made. The body is shared with `envelope`, not copied.
pub(super) fn unpack(uid: Uid, mut envelope: Bytes) -> Result<Message, Fault> {
    let (kind, crc) = begin(&mut envelope)?;
    if crc != crc32fast::hash(&envelope) {
        return Err(Fault::Damaged("its checksum does not match"));
    }
    let (id, delay_ms) = take_wish(&mut envelope).ok_or(TORN)?;
    let content = match kind {
        KIND_AMQP => take_amqp(envelope).map(Content::Amqp),
        _ => take_kafka(envelope).map(Content::Kafka),
    };
    Ok(Message { uid, id, delay_ms, content: content.ok_or(TORN)? })
}

fn put_amqp(out: &mut BytesMut, amqp: &AmqpContent) {
    put_short(out, &amqp.routing_key);
    put_long(out, &amqp.properties);
    out.put_slice(&amqp.body);
}

fn take_amqp(mut from: Bytes) -> Option<AmqpContent> {
    let routing_key = take_short(&mut from)?;
    let properties = take_long(&mut from)?;
    Some(AmqpContent { routing_key, properties, body: from })
}

fn put_kafka(out: &mut BytesMut, record: &KafkaContent) {
    out.put_u32(record.partition);
    out.put_i64(record.timestamp_ms.unwrap_or(NO_TIMESTAMP));
    match &record.key {
        Some(key) => put_long(out, key),
        None => out.put_u32(NO_KEY),
    }
    put_long(out, record.headers.as_bytes());
    out.put_u8(u8::from(record.value.is_some()));
    out.put_slice(record.value.as_deref().unwrap_or_default());
}

fn take_kafka(mut from: Bytes) -> Option<KafkaContent> {
    let partition = from.try_get_u32().ok()?;
    let timestamp = from.try_get_i64().ok()?;
    let key = match from.try_get_u32().ok()? {
        NO_KEY => None,
        length => Some(take(&mut from, length as usize)?),
    };
    let headers = RecordHeaders::from_packed(take_long(&mut from)?)?;
    let value = match from.try_get_u8().ok()? {
        0 => None,
        _ => Some(from),
    };
    let timestamp_ms = (timestamp != NO_TIMESTAMP).then_some(timestamp);
    Some(KafkaContent { key, value, headers, partition, timestamp_ms })
}

/// Ids and routing keys are short strings on the wire, so their length fits a byte.
fn put_short(out: &mut BytesMut, bytes: &[u8]) {
    debug_assert!(bytes.len() <= usize::from(u8::MAX));
    out.put_u8(bytes.len() as u8);
    out.put_slice(bytes);
}

fn put_long(out: &mut BytesMut, bytes: &[u8]) {
    out.put_u32(bytes.len() as u32);
    out.put_slice(bytes);
}

fn take_long(from: &mut Bytes) -> Option<Bytes> {
    let length = from.try_get_u32().ok()? as usize;
    take(from, length)
}

fn take_short(from: &mut Bytes) -> Option<Bytes> {
    let length = usize::from(from.try_get_u8().ok()?);
    take(from, length)
}

fn take(from: &mut Bytes, length: usize) -> Option<Bytes> {
    (length <= from.len()).then(|| from.split_to(length))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(id: Option<&str>, body: &[u8]) -> Message {
        Message {
            uid: Uid::fresh(),
            id: id.and_then(|id| ProducerId::new(id.as_bytes())),
            delay_ms: Some(5_000),
            content: Content::Amqp(AmqpContent {
                routing_key: Bytes::from_static(b"eu.de"),
                properties: Bytes::from_static(&[0x10, 0, 2]),
                body: Bytes::copy_from_slice(body),
            }),
        }
    }

    #[test]
    fn version_1_reads_as_it_was_first_written() {
        let golden: &[u8] = &[
            1, 1, 0x36, 0x35, 0x97, 0xd5, 0, 0, 0, 0, 0, 0, 0x13, 0x88, 1, b'a', 5, b'e', b'u',
            b'.', b'd', b'e', 0, 0, 0, 3, 0x10, 0, 2, b'h', b'i',
        ];
        let message = message(Some("a"), b"hi");
        assert_eq!(pack(&message), golden, "{:x?}", &pack(&message)[2..6]);
        assert_eq!(unpack(message.uid.clone(), Bytes::from_static(golden)), Ok(message));
    }

    fn record(key: Option<&'static [u8]>, value: Option<&'static [u8]>) -> Message {
        let headers = RecordHeaders::pack([("n", Some(&b"1"[..])), ("n", None)]);
        let (key, value) = (key.map(Bytes::from_static), value.map(Bytes::from_static));
        let content = KafkaContent { key, value, headers, partition: 3, timestamp_ms: Some(7) };
        Message {
            uid: Uid::parse("orders/3/17").expect("printable"),
            id: None,
            delay_ms: None,
            content: Content::Kafka(content),
        }
    }

    #[test]
    fn a_record_of_version_1_reads_as_it_was_first_written() {
        let golden: &[u8] = &[
            1, 2, 0x3f, 0x3a, 0x0e, 0x60, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0, 3, 0,
            0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1, b'k', 0, 0, 0, 19, 0, 0, 0, 1, b'n', 0, 0, 0, 1, b'1',
            0, 0, 0, 1, b'n', 255, 255, 255, 255, 1, b'h', b'i',
        ];
        let message = record(Some(b"k"), Some(b"hi"));
        assert_eq!(pack(&message), golden, "{:x?}", &pack(&message)[2..6]);
        assert_eq!(unpack(message.uid.clone(), Bytes::from_static(golden)), Ok(message));
    }

    #[test]
    fn null_and_empty_stay_apart() {
        for key in [None, Some(&b""[..])] {
            for value in [None, Some(&b""[..])] {
                let message = record(key, value);
                assert_eq!(unpack(message.uid.clone(), pack(&message)), Ok(message));
            }
        }
    }

    #[test]
    fn a_newer_envelope_is_told_from_a_damaged_one() {
        let mut bytes = pack(&message(None, b"x")).to_vec();
        bytes[0] = 2;
        let newer = unpack(Uid::fresh(), bytes.clone().into());
        assert!(matches!(newer, Err(Fault::Newer { version: 2, .. })));
        bytes[0] = 1;
        *bytes.last_mut().expect("not empty") ^= 1;
        let damaged = unpack(Uid::fresh(), bytes.into());
        assert!(matches!(damaged, Err(Fault::Damaged(_))));
    }

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(
            id in proptest::option::of("\\PC{1,60}"),
            routing_key in proptest::collection::vec(any::<u8>(), 0..=255),
            properties: Vec<u8>,
            body: Vec<u8>,
            delay_ms in proptest::option::of(0..u64::MAX),
        ) {
            let message = Message {
                uid: Uid::fresh(),
                id: id.and_then(|id| ProducerId::new(id.as_bytes())),
                delay_ms,
                content: Content::Amqp(AmqpContent {
                    routing_key: routing_key.into(),
                    properties: properties.into(),
                    body: body.into(),
                }),
            };
            let packed = pack(&message);
            let head = peek(packed.slice(..packed.len().min(HEAD_BYTES))).expect("a head");
            prop_assert_eq!((&head.id, head.delay_ms), (&message.id, message.delay_ms));
            prop_assert_eq!(unpack(message.uid.clone(), packed), Ok(message));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>, cut in 0_usize..40) {
            let _ = unpack(Uid::fresh(), bytes.into());
            for whole in [message(Some("id"), b"body"), record(None, Some(b"a value"))] {
                let whole = pack(&whole);
                let cut = whole.slice(..cut.min(whole.len()));
                if cut.len() < whole.len() {
                    prop_assert!(unpack(Uid::fresh(), cut).is_err());
                }
            }
        }
    }
}
