//! Acks in order: which deliveries of one channel are safe, and how far the broker was told.
//!
//! Delivery tags count up from one on every channel. An ack says `multiple`, so it may only ever
//! name a tag below which everything is safe. Whoever secures a delivery only marks it; one task
//! per channel tells the broker, as many at a time as have gathered.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::subscriber::Channel;
use crate::broker;
use crate::crash::{self, Point};

/// The deliveries of one channel that are not yet acked.
#[derive(Debug)]
pub(super) struct Ledger {
    state: Mutex<State>,
    /// Wakes the task that tells the broker.
    more_safe: Notify,
    /// Wakes whoever waits for something to be so.
    changed: Notify,
}

#[derive(Debug)]
struct State {
    /// The tag of the first delivery that is not safe; all before it are.
    first: u64,
    /// For each delivery from `first` on: whether it is safe.
    safe: VecDeque<bool>,
    unsecured: usize,
    /// The broker was told up to this tag.
    told: u64,
    /// While set, the broker is told nothing.
    withheld: bool,
    /// The channel is gone: nobody can be told any more.
    gone: bool,
    /// The store parks for another term: the channel is of no use any more.
    moved: bool,
}

impl Ledger {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                first: 1,
                safe: VecDeque::new(),
                unsecured: 0,
                told: 0,
                withheld: false,
                gone: false,
                moved: false,
            }),
            more_safe: Notify::new(),
            changed: Notify::new(),
        }
    }

    /// Deliveries came in.
    ///
    /// # Errors
    /// Which one is not the next: the broker numbers them without a gap, so one was missed, and a
    /// `multiple` ack beyond it would lose it.
    pub(super) fn delivered(&self, tags: impl IntoIterator<Item = u64>) -> Result<(), String> {
        let mut state = self.state();
        for tag in tags {
            if tag != state.first + state.safe.len() as u64 {
                return Err(format!("delivery {tag} came out of turn"));
            }
            state.safe.push_back(false);
            state.unsecured += 1;
        }
        Ok(())
    }

    /// How many deliveries the broker still counts as unacked.
    pub(super) fn unacked(&self) -> usize {
        let state = self.state();
        (state.first - 1 - state.told) as usize + state.safe.len()
    }

    /// Stops telling the broker, or resumes.
    pub(super) fn withhold(&self, withheld: bool) {
        self.state().withheld = withheld;
        self.more_safe.notify_one();
    }

    /// The channel is gone.
    pub(super) fn close(&self) {
        self.state().gone = true;
        self.more_safe.notify_one();
        self.changed.notify_waiters();
    }

    /// Whether the store refused what was handed out.
    pub(super) fn is_moved(&self) -> bool {
        self.state().moved
    }

    /// Waits until nothing is left to secure, or the channel is gone.
    pub(super) async fn all_secured(&self) {
        self.wait_until(|state| state.unsecured == 0).await;
    }

    /// Waits until the broker was told of all that is safe, or cannot be.
    pub(super) async fn all_told(&self) {
        self.wait_until(|state| state.told + 1 == state.first).await;
    }

    /// Tells the broker whenever more is safe, until the channel is gone.
    ///
    /// # Errors
    /// Why it could not be told.
    pub(super) async fn keep_telling(&self, channel: &Channel) -> Result<(), String> {
        loop {
            let (gone, tag) = {
                let state = self.state();
                let safe = state.first - 1;
                (state.gone, (!state.withheld && safe > state.told).then_some(safe))
            };
            if gone {
                return Ok(());
            }
            let Some(tag) = tag else {
                self.more_safe.notified().await;
                continue;
            };
            channel.ack(tag).await?;
            crash::pass(Point::AckedUnnoted);
            self.state().told = tag;
            self.changed.notify_waiters();
        }
    }

    async fn wait_until(&self, holds: impl Fn(&State) -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before the look, so that no change in between is missed.
            changed.as_mut().enable();
            {
                let state = self.state();
                if state.gone || holds(&state) {
                    return;
                }
            }
            changed.await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl broker::Ledger for Ledger {
    fn secured(&self, tag: u64) {
        let mut state = self.state();
        let place = tag.checked_sub(state.first).map(|place| place as usize);
        let Some(safe) = place.and_then(|place| state.safe.get_mut(place)) else {
            return;
        };
        *safe = true;
        state.unsecured -= 1;
        while state.safe.front() == Some(&true) {
            state.safe.pop_front();
            state.first += 1;
        }
        let (all_secured, grew) = (state.unsecured == 0, state.first > tag);
        drop(state);
        if grew {
            self.more_safe.notify_one();
        }
        if all_secured {
            self.changed.notify_waiters();
        }
    }

    fn is_void(&self) -> bool {
        self.state().gone
    }

    fn moved(&self) {
        self.state().moved = true;
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::Ledger as _;

    #[tokio::test]
    async fn only_an_unbroken_run_from_the_start_is_safe() {
        let ledger = Ledger::new();
        assert_eq!(ledger.delivered([1]), Ok(()));
        assert_eq!(ledger.delivered(2..=4), Ok(()));
        let gap = ledger.delivered([9]).expect_err("a gap is noticed");
        assert!(gap.contains("delivery 9"), "{gap}");
        ledger.secured(2);
        ledger.secured(4);
        assert_eq!(ledger.state().first, 1);
        ledger.secured(1);
        assert_eq!(ledger.state().first, 3);
        ledger.secured(3);
        assert_eq!(ledger.state().first, 5);
        assert_eq!(ledger.unacked(), 4);
        ledger.all_secured().await;
        ledger.secured(9);
    }

    #[tokio::test]
    async fn nobody_waits_for_a_channel_that_is_gone() {
        let ledger = Ledger::new();
        assert_eq!(ledger.delivered([1]), Ok(()));
        ledger.close();
        assert!(ledger.is_void());
        ledger.all_secured().await;
        ledger.all_told().await;
    }
}
