//! The envelope, open to `benches/micro`.

use bytes::Bytes;

use super::envelope::{self, Fault};
use crate::message::{Message, Uid};

/// What a store keeps of a message.
pub fn pack(message: &Message) -> Bytes {
    envelope::pack(message)
}

/// The message again.
///
/// # Errors
/// When the bytes are not what [`pack`] made.
pub fn unpack(uid: Uid, envelope: Bytes) -> Result<Message, Fault> {
    envelope::unpack(uid, envelope)
}
