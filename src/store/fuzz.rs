//! The reading of envelopes, open to `fuzz/`.

use bytes::Bytes;

use super::envelope::{CHECKED_FROM, HEAD_BYTES, pack, peek, unpack};
use crate::message::Uid;

/// Unpacks any bytes as they are, and once more with the checksum that they should have: hardly any
/// would pass it otherwise.
///
/// # Panics
/// When what was read is not what is written again: that is what is looked for.
pub fn envelope(bytes: &[u8]) {
    unpacked(Bytes::copy_from_slice(bytes));
    if bytes.len() >= CHECKED_FROM {
        let mut bytes = bytes.to_vec();
        let checksum = crc32fast::hash(&bytes[CHECKED_FROM..]);
        bytes[2..CHECKED_FROM].copy_from_slice(&checksum.to_be_bytes());
        unpacked(bytes.into());
    }
}

fn unpacked(envelope: Bytes) {
    let head = peek(envelope.slice(..envelope.len().min(HEAD_BYTES)));
    let Ok(message) = unpack(Uid::from_bytes(Bytes::from_static(b"uid")), envelope) else { return };
    let again = unpack(message.uid.clone(), pack(&message));
    assert_eq!(again.as_ref(), Ok(&message), "what was read is written as it was");
    let head = head.ok().map(|head| (head.id, head.delay_ms));
    assert_eq!(head, Some((message.id, message.delay_ms)), "the head says what the whole says");
}
