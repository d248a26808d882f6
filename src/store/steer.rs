//! Looking at what is parked, and changing it from outside the flow.
//!
//! An operator's steps are as whole as those of the loops: each is decided inside the store, at one
//! instant, against whatever a replica is doing with the message. So a message that was answered as
//! [`Steered::Cancelled`] is never delivered, and one that a replica is just publishing says so.

use async_trait::async_trait;
use bytes::Bytes;

use super::envelope::{Fault, Head};
use super::{Error, Store};
use crate::broker::portrait::hex;
use crate::clock::UnixMs;
use crate::delay::When;
use crate::message::{Destination, Message, ProducerId, Reason, Uid};

/// Where a message is: in exactly one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Waits for its due.
    Parked,
    /// A replica is releasing it.
    Leased,
    /// Kept, with a reason.
    Dead,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Parked, Self::Leased, Self::Dead];
}

/// How a message is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// By xdelay.
    Uid(Uid),
    /// By its producer.
    Id(ProducerId),
}

/// What is known of a message without reading its body.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its name.
    pub uid: Uid,
    /// Where it is.
    pub state: State,
    /// When it may be tried, when its lease ends, or when it was buried.
    pub at: UnixMs,
    /// When it is, or was, due.
    pub due: UnixMs,
    /// How often its release failed by its own fault.
    pub attempts: u32,
    /// Why it is dead.
    pub reason: Option<String>,
    /// Bytes it takes in the store, without its place.
    pub bytes: u64,
    /// What its envelope begins with, or why that cannot be read.
    pub head: Result<Head, Fault>,
    pub(super) place: Place,
    pub(super) slice: u32,
}

impl Seen {
    /// To steer it by.
    pub fn handle(&self) -> Handle {
        let (uid, id) = (self.uid.clone(), self.id().cloned());
        Handle { uid, id, slice: self.slice, bytes: self.bytes }
    }

    /// Where it stands among those of its state.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Its producer's id.
    pub fn id(&self) -> Option<&ProducerId> {
        self.head.as_ref().ok()?.id.as_ref()
    }
}

/// A message with all that is in it.
#[derive(Clone, Debug)]
pub struct Found {
    /// What is known of it.
    pub seen: Seen,
    /// What was captured, or why it cannot be read.
    pub message: Result<Message, Fault>,
}

/// What a message that was seen is steered by, wherever it has gone since.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(super) uid: Uid,
    pub(super) id: Option<ProducerId>,
    pub(super) slice: u32,
    /// Of its body, which some steps write anew.
    pub(super) bytes: u64,
}

impl Handle {
    /// Which message it is for.
    pub fn uid(&self) -> &Uid {
        &self.uid
    }
}

/// A position in the order of places of one state, good also when nothing stands there any more.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(pub(super) Bytes);

impl Place {
    /// As text without blanks, for a client to keep.
    pub fn to_text(&self) -> String {
        hex(&self.0)
    }

    /// Reads [`to_text`](Self::to_text).
    pub fn from_text(text: &str) -> Option<Self> {
        if !text.len().is_multiple_of(2) || text.len() > 1_024 || !text.is_ascii() {
            return None;
        }
        let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).ok();
        (0..text.len()).step_by(2).map(byte).collect::<Option<Vec<u8>>>().map(|it| Self(it.into()))
    }
}

/// Where a listing begins.
#[derive(Clone, Debug)]
pub enum Start {
    /// With those whose time ([`Seen::at`]) is this or later.
    At(UnixMs),
    /// With what follows.
    After(Place),
}

/// A part of what is there.
#[derive(Debug, Default)]
pub struct Listing {
    /// In order of place.
    pub seen: Vec<Seen>,
    /// There may be more behind the last.
    pub more: bool,
}

impl Listing {
    /// Several parts of what is there as one, in order of place. What follows in any of them is not
    /// passed by, so it may end before `most`.
    pub fn merge(parts: impl IntoIterator<Item = Self>, most: usize) -> Self {
        let (mut merged, mut until) = (Self::default(), None);
        for part in parts {
            if part.more {
                let last = part.seen.last().map(|seen| seen.place.clone());
                until = until.into_iter().chain(last).min();
            }
            merged.more |= part.more;
            merged.seen.extend(part.seen);
        }
        merged.seen.sort_by(|a, b| a.place.cmp(&b.place));
        merged.seen.retain(|seen| until.as_ref().is_none_or(|until| seen.place <= *until));
        merged.more |= merged.seen.len() > most;
        merged.seen.truncate(most);
        merged
    }
}

/// What an operator wants of a message.
#[derive(Clone, Debug)]
pub enum Step {
    /// End it.
    Cancel,
    /// Give a parked one another due; at once is now.
    Reschedule(When),
    /// Park a dead one again, with this due or its own.
    Revive(Option<When>),
    /// Keep a parked one as dead.
    Bury(Reason),
}

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steered {
    /// Gone, and never delivered.
    Cancelled,
    /// Gone, but a replica was, or had been, publishing it: possibly delivered.
    CancelledLeased,
    /// Parked with this due.
    Rescheduled(UnixMs),
    /// Parked again.
    Revived,
    /// Dead.
    Buried,
    /// Nothing was changed: a replica is releasing it.
    IsLeased,
    /// Nothing was changed: it is dead.
    IsDead,
    /// Nothing was changed: it is parked already.
    IsParked,
    /// Nothing was changed: another message has its producer's id now.
    IdTaken,
    /// Nothing was changed: it is not here.
    Unknown,
}

/// A store that an operator can look into and steer.
#[async_trait]
pub trait Steer: Store {
    /// Lists what is in one state. A page may end early where messages are large.
    async fn list(
        &self,
        destination: &Destination,
        state: State,
        start: Start,
        most: usize,
    ) -> Result<Listing, Error>;

    /// Looks one message up.
    async fn find(&self, destination: &Destination, name: &Name) -> Result<Option<Found>, Error>;

    /// Takes one step with each of these; answers for each in turn, when all is as durable as a
    /// park would be.
    async fn steer(
        &self,
        destination: &Destination,
        step: &Step,
        whom: &[Handle],
    ) -> Result<Vec<Steered>, Error>;

    /// Gives what is parked or dead the attempts that were counted in another store: never fewer
    /// than it has. Answers whether it is here to be given them, when that is as durable as a park
    /// would be.
    async fn restore(
        &self,
        destination: &Destination,
        whom: &Handle,
        attempts: u32,
    ) -> Result<bool, Error>;

    /// How many are parked until each of these instants, which ascend; to the second at least, at a
    /// cost that does not grow with the backlog.
    async fn backlog(&self, destination: &Destination, until: &[UnixMs])
    -> Result<Vec<u64>, Error>;

    /// Stops all replicas from claiming what is due, or lets them again.
    async fn pause(&self, destination: &Destination, paused: bool) -> Result<(), Error>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_survives_its_text() {
        let place = Place(Bytes::from_static(&[0, 1, 0xfe, 0xff]));
        assert_eq!(Place::from_text(&place.to_text()), Some(place));
        for odd in ["0", "zz", "0g", "ü1"] {
            assert_eq!(Place::from_text(odd), None, "{odd}");
        }
    }
}
