//! What goes into the store, and what came of it.

use bytes::Bytes;

use crate::clock::UnixMs;
use crate::delay::When;
use crate::message::{Message, ProducerId, Reason, Uid};

use super::proof::{Buried, Parked, Secured};

/// [`NOT_YOURS`] as a literal, which can be put in front of a script too.
macro_rules! not_yours {
    () => {
        "its x-delay-id names a message of another user-id"
    };
}
pub(super) use not_yours;

/// Why a message is buried that may not replace the one of its id.
pub const NOT_YOURS: &str = not_yours!();

/// Who asks to park a message, and so to replace the one that has its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    /// Who published it. What carries a `user-id`, which brokers validate, is replaced only by what
    /// carries the same.
    Producer,
    /// An operator, who may replace anything.
    Operator,
}

/// One step of a batch, applied in the order of capture.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// Park it; a message of the same producer's id before it is replaced.
    Park {
        /// What to park.
        message: Message,
        /// When it may be released.
        when: When,
        /// Comes first among equal dues when higher.
        priority: u8,
        /// Who asks.
        by: Author,
    },
    /// Keep it as dead at once.
    Bury {
        /// What to keep.
        message: Message,
        /// Why it cannot be delayed.
        reason: Reason,
    },
    /// End the message of this id. `uid` names the message that says so.
    Cancel {
        /// The capture that carries the cancel.
        uid: Uid,
        /// Which message to end.
        id: ProducerId,
        /// The `user-id` of the capture: what carries one is ended only by the same.
        user: Option<Bytes>,
    },
}

impl Entry {
    /// The captured message that this entry stands for.
    pub fn uid(&self) -> &Uid {
        match self {
            Self::Park { message, .. } | Self::Bury { message, .. } => &message.uid,
            Self::Cancel { uid, .. } => uid,
        }
    }
}

/// What an entry did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Parked, due at this instant.
    Parked(UnixMs),
    /// Parked in place of an earlier message of the same id, which will not be released.
    Replaced(UnixMs),
    /// Parked in place of an earlier one that a replica was just releasing: possibly delivered.
    ReplacedLeased(UnixMs),
    /// It was there already.
    Known,
    /// Kept as dead.
    Buried,
    /// The parked message of this id is gone and will not be released.
    Cancelled,
    /// It is gone, but a replica was just releasing it: possibly delivered.
    CancelledLeased,
    /// No message of this id is parked: it was released, or never was.
    UnknownId,
    /// The message of this id carries another `user-id`, and is left as it is. What was to replace
    /// it is kept as dead; a cancel has no effect.
    NotYours,
}

/// One entry's proof and outcome.
#[derive(Debug)]
pub struct Parking {
    /// With this the capture may be acked.
    pub proof: Secured,
    /// What happened.
    pub outcome: Outcome,
}

impl Parkings {
    /// The one place where a proof that something is parked is made: by a store that has an outcome
    /// for every entry, all of it as durable as configured.
    pub(super) fn prove(
        batch: &[Entry],
        outcomes: Vec<Outcome>,
        now: UnixMs,
        earliest_due: Option<UnixMs>,
    ) -> Self {
        assert_eq!(batch.len(), outcomes.len(), "every entry has an outcome");
        let prove = |(entry, outcome): (&Entry, Outcome)| {
            let uid = entry.uid().clone();
            let proof = match (entry, outcome) {
                (Entry::Bury { .. }, _) | (Entry::Park { .. }, Outcome::NotYours) => {
                    Secured::Buried(Buried::new(uid))
                }
                _ => Secured::Parked(Parked::new(uid)),
            };
            Parking { proof, outcome }
        };
        let entries = batch.iter().zip(outcomes).map(prove).collect();
        Self { entries, now, earliest_due, rolled_back: false }
    }
}

/// A batch's answer.
#[derive(Debug)]
#[must_use = "holds the proofs that captures are acked with"]
pub struct Parkings {
    /// For each entry, in order.
    pub entries: Vec<Parking>,
    /// The store's clock.
    pub now: UnixMs,
    /// The earliest due among what was parked: wakes a release loop that sleeps beyond it.
    pub earliest_due: Option<UnixMs>,
    /// The store answered a lower sequence than before: it was emptied or rolled back.
    pub rolled_back: bool,
}
