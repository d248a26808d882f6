//! What this replica did lately: the last messages one by one, the last hour by the minute.
//!
//! Kept in memory and bounded, so it is gone with the process and knows nothing of other replicas;
//! what must not be lost is in the store. It answers what an operator asks first: did it go out,
//! and when?

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hdrhistogram::Histogram;
use tokio::sync::broadcast;

use crate::clock::{StoreClock, UnixMs};
use crate::message::{Destination, ProducerId, Uid};

/// Most releases that are kept, and most of all other events: those must not be lost among them.
const EVENTS_MAX: usize = 10_000;
/// How long an event is kept.
const EVENT_AGE_MAX_MS: u64 = 86_400_000;
/// Minutes that are kept.
const MINUTES_MAX: usize = 60;
const MINUTE_MS: u64 = 60_000;
/// Events on their way to one who watches; a slower one misses some and is told so.
const WATCHED_MAX: usize = 1_024;
/// Lateness is told apart up to an hour.
const LATENESS_MAX_MS: u64 = 3_600_000;

/// Something that happened to one message.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When, by the store's clock.
    pub at: UnixMs,
    /// Whose message it was.
    pub destination: Destination,
    /// Its uid, where it is known.
    pub uid: Option<Uid>,
    /// Its producer's id.
    pub id: Option<ProducerId>,
    /// What happened.
    pub what: What,
}

/// What can happen to a message.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// It was published and confirmed.
    Released {
        /// When it was due.
        due: UnixMs,
        /// How much later it was, in milliseconds.
        lateness_ms: u64,
    },
    /// It was ended.
    Cancelled {
        /// A replica was, or had been, publishing it.
        possibly_delivered: bool,
    },
    /// It was kept as dead.
    Buried {
        /// Why.
        reason: String,
    },
    /// An operator gave it another due.
    Rescheduled {
        /// The new one.
        due: UnixMs,
    },
    /// An operator parked it again.
    Revived,
}

/// One minute of work.
#[derive(Clone, Debug, Default)]
pub struct Minute {
    /// When it began.
    pub start: UnixMs,
    /// Messages taken in.
    pub captured: u64,
    /// Messages released.
    pub released: u64,
    /// Messages cancelled.
    pub cancelled: u64,
    /// Messages buried.
    pub buried: u64,
    /// Lateness of the released, in milliseconds, rounded to two digits.
    lateness: Option<Histogram<u32>>,
}

impl Minute {
    /// The lateness that this share of its releases did not exceed, in milliseconds.
    pub fn lateness_ms(&self, share: f64) -> Option<u64> {
        self.lateness.as_ref().map(|lateness| lateness.value_at_quantile(share))
    }

    fn count(&mut self, what: &What) {
        match what {
            What::Released { lateness_ms, .. } => {
                self.released += 1;
                let new = || Histogram::new_with_bounds(1, LATENESS_MAX_MS, 2).ok();
                if self.lateness.is_none() {
                    self.lateness = new();
                }
                if let Some(lateness) = &mut self.lateness {
                    lateness.saturating_record(*lateness_ms);
                }
            }
            What::Cancelled { .. } => self.cancelled += 1,
            What::Buried { .. } => self.buried += 1,
            What::Rescheduled { .. } | What::Revived => {}
        }
    }
}

/// All of it.
#[derive(Debug)]
pub struct History {
    clock: Arc<StoreClock>,
    kept: Mutex<Kept>,
    watched: broadcast::Sender<Event>,
}

#[derive(Debug, Default)]
struct Kept {
    released: VecDeque<Event>,
    others: VecDeque<Event>,
    minutes: VecDeque<Minute>,
}

impl History {
    /// Nothing yet.
    pub fn new(clock: Arc<StoreClock>) -> Self {
        let (watched, _) = broadcast::channel(WATCHED_MAX);
        Self { clock, kept: Mutex::default(), watched }
    }

    /// Takes note of what happened to one message just now.
    pub fn note(
        &self,
        destination: &Destination,
        uid: Option<Uid>,
        id: Option<ProducerId>,
        what: What,
    ) {
        self.note_all(destination, [(uid, id, what)]);
    }

    /// The same for a whole batch.
    pub fn note_all(
        &self,
        destination: &Destination,
        batch: impl IntoIterator<Item = (Option<Uid>, Option<ProducerId>, What)>,
    ) {
        let at = self.clock.now();
        let is_watched = self.watched.receiver_count() > 0;
        let mut kept = self.kept();
        for (uid, id, what) in batch {
            let event = Event { at, destination: destination.clone(), uid, id, what };
            if is_watched {
                // Nobody to hear it is no error.
                let _ = self.watched.send(event.clone());
            }
            kept.keep(event);
        }
    }

    /// Counts messages that were taken in.
    pub fn captured(&self, count: u64) {
        let at = self.clock.now();
        self.kept().minute(at).captured += count;
    }

    /// The events that match, the last first.
    pub fn last(&self, most: usize, matches: impl Fn(&Event) -> bool) -> Vec<Event> {
        let since = self.clock.now().saturating_sub(EVENT_AGE_MAX_MS);
        let kept = self.kept();
        let last = |ring: &VecDeque<Event>| -> Vec<Event> {
            let young = ring.iter().rev().take_while(|event| event.at >= since);
            young.filter(|event| matches(event)).take(most).cloned().collect()
        };
        let mut events = [last(&kept.released), last(&kept.others)].concat();
        drop(kept);
        events.sort_by_key(|event| std::cmp::Reverse(event.at));
        events.truncate(most);
        events
    }

    /// The minutes of the last hour in which anything happened.
    pub fn minutes(&self) -> Vec<Minute> {
        let since = self.clock.now().saturating_sub(MINUTES_MAX as u64 * MINUTE_MS);
        let kept = self.kept();
        kept.minutes.iter().filter(|minute| minute.start >= since).cloned().collect()
    }

    /// Events from now on.
    pub fn watch(&self) -> broadcast::Receiver<Event> {
        self.watched.subscribe()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn keep(&mut self, event: Event) {
        self.minute(event.at).count(&event.what);
        let ring = match event.what {
            What::Released { .. } => &mut self.released,
            _ => &mut self.others,
        };
        if ring.len() == EVENTS_MAX {
            ring.pop_front();
        }
        ring.push_back(event);
    }

    /// The minute of this instant; a clock that steps back stays in the last one.
    fn minute(&mut self, at: UnixMs) -> &mut Minute {
        let start = at / MINUTE_MS * MINUTE_MS;
        if self.minutes.back().is_none_or(|last| last.start < start) {
            if self.minutes.len() == MINUTES_MAX {
                self.minutes.pop_front();
            }
            self.minutes.push_back(Minute { start, ..Minute::default() });
        }
        let last = self.minutes.len() - 1;
        &mut self.minutes[last]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn history_at(now: UnixMs) -> (History, Arc<StoreClock>) {
        let clock = Arc::new(StoreClock::new());
        clock.observe(now, Instant::now());
        (History::new(Arc::clone(&clock)), clock)
    }

    fn release(history: &History, lateness_ms: u64) {
        let what = What::Released { due: 1, lateness_ms };
        history.note(&Destination::amqp("orders"), Some(Uid::fresh()), None, what);
    }

    #[test]
    fn the_last_comes_first_and_the_old_is_forgotten() {
        let (history, clock) = history_at(10_000_000);
        release(&history, 1);
        release(&history, 2);
        let lateness = |event: &Event| match event.what {
            What::Released { lateness_ms, .. } => lateness_ms,
            _ => 0,
        };
        let late: Vec<_> = history.last(10, |_| true).iter().map(lateness).collect();
        assert_eq!(late, [2, 1]);
        clock.observe(10_000_000 + EVENT_AGE_MAX_MS + 60_000, Instant::now());
        assert!(history.last(10, |_| true).is_empty());
    }

    #[test]
    fn it_holds_no_more_than_it_may() {
        let (history, _) = history_at(10_000_000);
        for lateness in 0..EVENTS_MAX as u64 + 5 {
            release(&history, lateness);
        }
        assert_eq!(history.last(usize::MAX, |_| true).len(), EVENTS_MAX);
    }

    #[test]
    fn minutes_count_and_know_their_lateness() {
        let (history, clock) = history_at(6_000_000);
        history.captured(1);
        for lateness in 1..=100 {
            release(&history, lateness);
        }
        clock.observe(6_060_000, Instant::now());
        release(&history, 7);
        let minutes = history.minutes();
        assert_eq!(minutes.len(), 2);
        assert_eq!((minutes[0].captured, minutes[0].released), (1, 100));
        assert_eq!(minutes[0].lateness_ms(0.5), Some(50));
        assert_eq!(minutes[1].released, 1);
    }

    #[tokio::test]
    async fn who_watches_hears_of_it() {
        let (history, _) = history_at(6_000_000);
        let mut watching = history.watch();
        release(&history, 3);
        let event = watching.recv().await.expect("an event");
        assert_eq!(event.what, What::Released { due: 1, lateness_ms: 3 });
    }
}
