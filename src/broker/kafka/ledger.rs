//! Which records of one partition are safe, and how far the group may be told.
//!
//! A ledger lives from one begin of reading to the next: a partition that goes to another replica,
//! or back to its mark, gets a new one, and receipts of the old one are void. Only offsets below
//! which everything is parked are ever committed.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::broker;

/// The records of one partition that are not yet safe.
#[derive(Debug)]
pub(super) struct Ledger {
    state: Mutex<State>,
    all_secured: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Offset of each record that was handed out, from the first that is not safe: whether it is.
    records: VecDeque<(u64, bool)>,
    /// The offset after the last record before which all are safe.
    safe: Option<u64>,
    void: bool,
    /// The store stands elsewhere: reading must begin anew.
    moved: bool,
}

impl Ledger {
    pub(super) fn new() -> Self {
        Self { state: Mutex::default(), all_secured: Condvar::new() }
    }

    /// A record is handed out; offsets only grow.
    pub(super) fn delivered(&self, offset: u64) {
        self.state().records.push_back((offset, false));
    }

    /// Up to where the group may be told, once anything is safe.
    pub(super) fn safe(&self) -> Option<u64> {
        self.state().safe
    }

    /// Nothing that was handed out counts any more.
    pub(super) fn end(&self) {
        self.state().void = true;
        self.all_secured.notify_all();
    }

    /// Whether the store refused what was handed out.
    pub(super) fn is_moved(&self) -> bool {
        self.state().moved
    }

    /// Waits until nothing is left to secure, or nothing counts any more. Blocks.
    pub(super) fn wait_until_secured(&self, within: Duration) {
        let waits = |state: &mut State| !state.void && !state.records.is_empty();
        drop(self.all_secured.wait_timeout_while(self.state(), within, waits));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl broker::Ledger for Ledger {
    fn secured(&self, offset: u64) {
        let mut state = self.state();
        let Ok(place) = state.records.binary_search_by_key(&offset, |(offset, _)| *offset) else {
            return;
        };
        state.records[place].1 = true;
        while let Some((offset, true)) = state.records.front().copied() {
            state.records.pop_front();
            state.safe = Some(offset + 1);
        }
        if state.records.is_empty() {
            self.all_secured.notify_all();
        }
    }

    fn is_void(&self) -> bool {
        self.state().void
    }

    fn moved(&self) {
        let mut state = self.state();
        (state.moved, state.void) = (true, true);
        self.all_secured.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::Ledger as _;

    #[test]
    fn only_an_unbroken_run_is_safe_whatever_offsets_are_missing() {
        let ledger = Ledger::new();
        for offset in [3, 4, 9, 12] {
            ledger.delivered(offset);
        }
        assert_eq!(ledger.safe(), None);
        ledger.secured(4);
        ledger.secured(12);
        assert_eq!(ledger.safe(), None);
        ledger.secured(3);
        assert_eq!(ledger.safe(), Some(5));
        ledger.secured(7);
        ledger.secured(9);
        assert_eq!(ledger.safe(), Some(13));
        ledger.wait_until_secured(Duration::MAX);
    }

    #[test]
    fn what_the_store_refused_is_void() {
        let ledger = Ledger::new();
        ledger.delivered(3);
        ledger.moved();
        assert!(ledger.is_void() && ledger.is_moved());
        ledger.wait_until_secured(Duration::MAX);
    }
}
