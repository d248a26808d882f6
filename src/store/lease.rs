//! What a claim hands out: messages to release, each with the ticket to conclude it by.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::UnixMs;
use crate::message::{Message, ProducerId, Reason, Uid};

use super::envelope::Fault;

/// The right to conclude one leased message, once: settle it, postpone it or bury it.
#[derive(Debug)]
#[must_use = "a dropped ticket leaves its message leased until the lease runs out"]
pub struct Ticket {
    uid: Uid,
    id: Option<ProducerId>,
    token: Arc<str>,
    due: UnixMs,
    slice: u32,
}

impl Ticket {
    pub(super) fn new(
        uid: Uid,
        id: Option<ProducerId>,
        token: Arc<str>,
        due: UnixMs,
        slice: u32,
    ) -> Self {
        Self { uid, id, token, due, slice }
    }

    /// Which message it is for.
    pub fn uid(&self) -> &Uid {
        &self.uid
    }

    /// Its producer's id.
    pub fn id(&self) -> Option<&ProducerId> {
        self.id.as_ref()
    }

    /// What tells this lease of its message from earlier and later ones.
    pub fn token(&self) -> &str {
        &self.token
    }

    pub(super) fn due(&self) -> UnixMs {
        self.due
    }

    pub(super) fn slice(&self) -> u32 {
        self.slice
    }
}

/// A due message, ours for a limited time.
#[derive(Debug)]
#[must_use = "a dropped lease leaves its message leased until the lease runs out"]
pub struct Lease {
    message: Message,
    attempts: u32,
    ticket: Ticket,
}

impl Lease {
    pub(super) fn new(message: Message, attempts: u32, ticket: Ticket) -> Self {
        assert_eq!(message.uid, ticket.uid, "a ticket is for its own message");
        Self { message, attempts, ticket }
    }

    /// What to release.
    pub fn message(&self) -> &Message {
        &self.message
    }

    /// When it was due.
    pub fn due(&self) -> UnixMs {
        self.ticket.due
    }

    /// How often its release has failed by its own fault.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// What it is to be concluded by.
    pub fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    /// Gives up the message for the right to conclude it.
    pub fn into_ticket(self) -> Ticket {
        self.ticket
    }
}

/// A due message whose envelope cannot be read here.
#[derive(Debug)]
pub struct Unreadable {
    /// To conclude it by.
    pub ticket: Ticket,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What [`super::Store::claim`] took.
#[derive(Debug)]
#[must_use = "holds leases"]
pub struct Claim {
    /// To be released, earliest due first.
    pub leases: Vec<Lease>,
    /// To be buried, or left for a newer version.
    pub unreadable: Vec<Unreadable>,
    /// Buried by the store itself, since their bodies are missing.
    pub bodiless: u64,
    /// It holds one message alone, which may be what ended its earlier holders: nothing else
    /// should be in hand beside it.
    pub alone: bool,
    /// An operator holds its releases back: nothing is taken.
    pub paused: bool,
    /// The store's clock.
    pub now: UnixMs,
    /// When the next message is due, claimed by nobody yet; it may have come already.
    pub next_due: Option<UnixMs>,
}

impl Claim {
    /// Nothing, of a destination that an operator holds back.
    pub(super) fn paused(now: UnixMs) -> Self {
        Self {
            leases: Vec::new(),
            unreadable: Vec::new(),
            bodiless: 0,
            alone: false,
            paused: true,
            now,
            next_due: None,
        }
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.leases.is_empty() && self.unreadable.is_empty()
    }
}

/// A message to give back.
#[derive(Debug)]
pub struct Postponed {
    /// To conclude it by.
    pub ticket: Ticket,
    /// How long until it may be claimed again; zero puts it back to its due.
    pub wait: Duration,
    /// Whether this was a failed attempt of the message's own.
    pub counts: bool,
    /// Why, for log and metric.
    pub reason: Reason,
}
