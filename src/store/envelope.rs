//! How a message is packed to be parked: one value, versioned and checked.
//!
//! ```text
//! offset  bytes  field
//! 0       1      version, 1
//! 1       1      kind of content, 1 = AMQP
//! 2       4      CRC-32 of all that follows
//! 6       8      delay asked for in ms, all ones for none
//! 14      1+n    producer's id, n = 0 for none
//! AMQP:   1+n    routing key
//!         4+n    property flags and list, as in a content header frame
//!         rest   body
//! ```
//!
//! Numbers are big-endian. The destination is not in it: the bucket it lies in says that. Nor is
//! the due, which only the store's clock knows: each store keeps it beside the envelope. Every
//! version ever released is read for ever; one that is newer is left alone (design law of
//! versions: N reads what N-1 parked, and both may run at once).

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::message::{AmqpContent, Content, Message, ProducerId, Uid};

const VERSION: u8 = 1;
const KIND_AMQP: u8 = 1;
const CHECKED_FROM: usize = 6;
const NO_DELAY: u64 = u64::MAX;
const TORN: Fault = Fault::Damaged("a length is wrong");

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
    /// The routing key.
    pub key: Bytes,
}

/// So many bytes at the beginning of an envelope hold all of its head.
pub(super) const HEAD_BYTES: usize = 14 + 256 + 256;

/// Reads the head alone, from at least [`HEAD_BYTES`] or all of an envelope. Its checksum is not
/// looked at: that takes the whole.
pub(super) fn peek(mut envelope: Bytes) -> Result<Head, Fault> {
    begin(&mut envelope)?;
    head(&mut envelope).ok_or(TORN)
}

/// Reads version, kind and checksum; answers the checksum.
fn begin(envelope: &mut Bytes) -> Result<u32, Fault> {
    if envelope.len() < CHECKED_FROM {
        return Err(Fault::Damaged("it is too short"));
    }
    let (version, kind) = (envelope.get_u8(), envelope.get_u8());
    if version > VERSION || (version == VERSION && kind > KIND_AMQP) {
        return Err(Fault::Newer { version, kind });
    }
    Ok(envelope.get_u32())
}

fn head(envelope: &mut Bytes) -> Option<Head> {
    let delay = envelope.try_get_u64().ok()?;
    let id = take_short(envelope)?;
    let key = take_short(envelope)?;
    let delay_ms = (delay != NO_DELAY).then_some(delay);
    Some(Head { id: ProducerId::new(&id), delay_ms, key })
}

/// Packs a message.
pub(super) fn pack(message: &Message) -> Bytes {
    let Content::Amqp(amqp) = &message.content;
    let id = message.id.as_ref().map_or("", ProducerId::as_str);
    let mut out = BytesMut::with_capacity(32 + id.len() + message.size());
    out.put_u8(VERSION);
    out.put_u8(KIND_AMQP);
    out.put_u32(0);
    out.put_u64(message.delay_ms.unwrap_or(NO_DELAY));
    put_short(&mut out, id.as_bytes());
    put_short(&mut out, &amqp.routing_key);
    out.put_u32(amqp.properties.len() as u32);
    out.put_slice(&amqp.properties);
    out.put_slice(&amqp.body);
    let crc = crc32fast::hash(&out[CHECKED_FROM..]);
    out[2..CHECKED_FROM].copy_from_slice(&crc.to_be_bytes());
    out.freeze()
}

/// Unpacks what [`pack`] made. The body is shared with `envelope`, not copied.
pub(super) fn unpack(uid: Uid, mut envelope: Bytes) -> Result<Message, Fault> {
    let crc = begin(&mut envelope)?;
    if crc != crc32fast::hash(&envelope) {
        return Err(Fault::Damaged("its checksum does not match"));
    }
    let Head { id, delay_ms, key: routing_key } = head(&mut envelope).ok_or(TORN)?;
    let length = envelope.try_get_u32().map_err(|_| TORN)? as usize;
    let properties = take(&mut envelope, length).ok_or(TORN)?;
    let amqp = AmqpContent { routing_key, properties, body: envelope };
    Ok(Message { uid, id, delay_ms, content: Content::Amqp(amqp) })
}

/// Ids and routing keys are short strings on the wire, so their length fits a byte.
fn put_short(out: &mut BytesMut, bytes: &[u8]) {
    debug_assert!(bytes.len() <= usize::from(u8::MAX));
    out.put_u8(bytes.len() as u8);
    out.put_slice(bytes);
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
            let whole = pack(&message(Some("id"), b"body"));
            let cut = whole.slice(..cut.min(whole.len()));
            if cut.len() < whole.len() {
                prop_assert!(unpack(Uid::fresh(), cut).is_err());
            }
        }
    }
}
