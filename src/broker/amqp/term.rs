//! The term of an active consumer, and what ends it in the store.
//!
//! The problem: a process that freezes with captures in hand, or loses its connection unawares, is
//! given up by the broker, which hands the captures to another replica. Once awake, the first one
//! would park them all the same, and so bring back what was cancelled or rescheduled meanwhile.
//!
//! The contract: only one consumer of a queue is active at a time, since it is a
//! single-active-consumer queue. When its first delivery shows a consumer that it is the one, it
//! begins a term: it puts a [`Mark`] of a life of its own into the store, where every park must
//! then find it. After that the channel is asked for an answer. One that answers was still ours
//! when the mark was put, so whoever becomes active later puts a mark later, and from then on the
//! store refuses what is parked for the earlier term.

use std::collections::HashMap;

use super::subscriber::Channel;
use crate::message::Destination;
use crate::store::{Mark, Origin, Store};

/// As logs, a capture queue and the rescue queue of a destination have these numbers.
pub(super) const PARK: u32 = 0;
pub(super) const RESCUE: u32 = 1;

/// What one subscription has in the store.
pub(super) struct Term {
    log: u32,
    life: u32,
    window: u16,
    /// For each destination met: the tag after that of its last delivery.
    next: HashMap<Destination, u64>,
}

/// Why a term could not begin.
pub(super) enum Unbegun {
    /// The store does not take its mark: soon again.
    Store(String),
    /// The channel is gone, and with it whatever it delivered.
    Channel(String),
}

impl Term {
    /// One that no other has, of a consumer with this window.
    pub(super) fn new(log: u32, window: u16) -> Self {
        Self { log, life: fastrand::u32(..), window, next: HashMap::new() }
    }

    /// Begins the term for a destination, unless it has begun there.
    pub(super) async fn begin(
        &mut self,
        destination: &Destination,
        tag: u64,
        store: &dyn Store,
        channel: &Channel,
    ) -> Result<(), Unbegun> {
        if self.next.contains_key(destination) {
            return Ok(());
        }
        let mark = Mark { life: self.life, next: tag, stamp: None };
        let put = store.set_mark(destination, self.log, mark).await;
        put.map_err(|error| Unbegun::Store(error.to_string()))?;
        // It changes nothing: only that it is answered matters.
        channel.qos(self.window).await.map_err(Unbegun::Channel)?;
        self.next.insert(destination.clone(), tag);
        Ok(())
    }

    /// Where a delivery stands in this term, which has begun for its destination.
    pub(super) fn origin(&mut self, destination: &Destination, tag: u64) -> Origin {
        let (log, life) = (self.log, self.life);
        let next = self.next.get_mut(destination);
        let from = next.map_or(tag, |next| std::mem::replace(next, tag + 1));
        Origin { log, life, from, at: tag, stamp: None }
    }
}
