//! One partition of a capture topic, as this replica reads it.

use std::sync::Arc;
use std::time::Instant;

use rdkafka::Message as _;
use rdkafka::message::BorrowedMessage;

use super::capture::{self, Reader};
use super::ledger::Ledger;
use crate::broker::{Delivery, Receipt};
use crate::message::{Destination, Uid};
use crate::store::{Mark, Origin};

/// Where reading stands.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    /// librdkafka does not read it; it is begun when this comes.
    Begins(Instant),
    /// librdkafka reads it, and its records are handed out.
    Reads,
}

/// A partition that was assigned to this replica.
#[derive(Debug)]
pub(super) struct Partition {
    pub destination: Destination,
    pub number: i32,
    pub stage: Stage,
    pub ledger: Arc<Ledger>,
    /// Which life of the topic is read.
    life: u32,
    /// The first offset that was not read.
    next: u64,
    /// The last record before the mark and its timestamp: read first, to know the topic again.
    known: Option<(u64, i64)>,
    /// Up to where the group was told.
    pub told: Option<u64>,
}

/// What a record that was read means.
pub(super) enum Read {
    /// It is handed out.
    Delivery(Box<Delivery>),
    /// It was read before, or only to know the topic again.
    Nothing,
    /// It is not the record that stood there: the topic is another one.
    Stranger,
}

impl Partition {
    /// Not begun yet.
    pub(super) fn new(destination: Destination, number: i32) -> Self {
        Self {
            destination,
            number,
            stage: Stage::Begins(Instant::now()),
            ledger: Arc::new(Ledger::new()),
            life: 0,
            next: 0,
            known: None,
            told: None,
        }
    }

    /// The name of this log in the store.
    pub(super) fn log(&self) -> u32 {
        u32::try_from(self.number).unwrap_or(0)
    }

    /// Reads from the mark on, with a ledger of its own; answers the offset to read from. `first` is the
    /// earliest offset that the topic still has.
    pub(super) fn begin(&mut self, mark: Mark, first: u64) -> u64 {
        self.ledger.end();
        self.ledger = Arc::new(Ledger::new());
        self.stage = Stage::Reads;
        (self.life, self.next) = (mark.life, mark.next);
        let last = mark.next.checked_sub(1).filter(|last| *last >= first);
        self.known = last.zip(mark.stamp);
        self.known.map_or(mark.next, |(at, _)| at)
    }

    /// Nothing of it is handed out any more; it begins again at `when`.
    pub(super) fn rest_until(&mut self, when: Instant) {
        self.ledger.end();
        self.stage = Stage::Begins(when);
    }

    /// What to tell the group, if there is anything new.
    pub(super) fn untold(&self) -> Option<u64> {
        self.ledger.safe().filter(|safe| self.told.is_none_or(|told| told < *safe))
    }

    /// Takes a record that was read.
    pub(super) fn take(&mut self, record: &BorrowedMessage<'_>, reader: &Reader) -> Read {
        let at = u64::try_from(record.offset()).unwrap_or(0);
        let stamp = capture::stamp(record);
        if !matches!(self.stage, Stage::Reads) {
            return Read::Nothing;
        }
        if let Some((known, stamped)) = self.known.take()
            && at == known
            && stamp != Some(stamped)
        {
            return Read::Stranger;
        }
        if at < self.next {
            return Read::Nothing;
        }
        let origin = Origin { log: self.log(), life: self.life, from: self.next, at, stamp };
        self.next = at + 1;
        self.ledger.delivered(at);
        let uid = Uid::position(&self.destination.name, self.log(), self.life, at);
        let captured = reader.read(record);
        Read::Delivery(Box::new(Delivery {
            destination: self.destination.clone(),
            uid: uid.clone(),
            content: captured.content,
            priority: 0,
            wish: captured.wish,
            delay_ms: captured.delay_ms,
            origin: Some(origin),
            receipt: Receipt::new(uid, Arc::clone(&self.ledger) as _, at),
        }))
    }
}
