//! Proofs that something is safe. Only the store can make these; see [`super`].

use crate::broker::Released;
use crate::message::Uid;

/// The store durably holds what the message of this uid asked for: the message itself, or, for a
/// cancel, its effect.
#[derive(Debug)]
#[must_use = "a capture is acked with this"]
pub struct Parked(Uid);

/// The store durably keeps this message as dead.
#[derive(Debug)]
#[must_use = "a capture is acked with this"]
pub struct Buried(Uid);

/// Whatever allows a capture to be acked.
#[derive(Debug)]
#[must_use = "a capture is acked with this"]
pub enum Secured {
    /// In the store.
    Parked(Parked),
    /// In the store, as dead.
    Buried(Buried),
    /// At its destination already.
    Released(Released),
}

impl Parked {
    pub(super) fn new(uid: Uid) -> Self {
        Self(uid)
    }
}

impl Buried {
    pub(super) fn new(uid: Uid) -> Self {
        Self(uid)
    }
}

impl Secured {
    /// Which message is safe.
    pub fn uid(&self) -> &Uid {
        match self {
            Self::Parked(parked) => &parked.0,
            Self::Buried(buried) => &buried.0,
            Self::Released(released) => released.uid(),
        }
    }
}
