//! Accounts for every arrival: lost, twice, out of order, early, late, changed.
//!
//! Little is done per arrival, since what is done here takes time from those who are measured;
//! uids are only kept, and compared at the end. A message that xdelay released brings a longer
//! header to read than a relayed one, which counts against xdelay, as it would in an application.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::clock::now_us;
use crate::job::{Arrivals, Quantiles};
use crate::load::Round;
use crate::plan::is_body;

/// Lateness beyond this many microseconds is recorded as this: ten minutes.
const LATEST_US: u64 = 600_000_000;
/// How long to look for copies after everything has arrived.
const LINGER: Duration = Duration::from_millis(500);
/// How often to ask whether this is the end.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(100);

/// One arrival, whatever broker brought it.
pub(crate) struct Arrival<'a> {
    /// `ROUND.NUMBER`, as it was published.
    pub id: Option<&'a str>,
    pub body: &'a [u8],
    /// What xdelay put on a message it released: due in milliseconds, and uid.
    pub mark: Option<(u64, Box<str>)>,
    /// Within which order holds.
    pub partition: i32,
}

/// Of one round.
pub(crate) struct Recorder {
    round: Arc<Round>,
    /// How often each message arrived.
    copies: Vec<u8>,
    distinct: u64,
    uids: Vec<Box<str>>,
    /// Of each partition, due and number of the arrival that should come last so far.
    highest: HashMap<i32, (u64, u64)>,
    last_arrival_us: u64,
    lateness: Histogram<u64>,
    overshoot: Histogram<u64>,
    seen: Arrivals,
}

impl Recorder {
    pub(crate) fn new(round: Arc<Round>) -> anyhow::Result<Self> {
        let messages = round.planned_us.len();
        Ok(Self {
            copies: vec![0; messages],
            distinct: 0,
            uids: Vec::with_capacity(messages),
            highest: HashMap::new(),
            last_arrival_us: now_us(),
            lateness: Histogram::new_with_max(LATEST_US, 3)?,
            overshoot: Histogram::new_with_max(LATEST_US, 3)?,
            seen: Arrivals::default(),
            round,
        })
    }

    /// Whether every message has arrived.
    pub(crate) fn is_complete(&self) -> bool {
        self.distinct == self.round.job.messages
    }

    /// Whether there is nothing more to wait for: all has come, or nothing has for too long.
    pub(crate) fn is_over(&self) -> bool {
        let planned = self.round.last_planned_us.load(Ordering::Acquire);
        let quiet = now_us().saturating_sub(self.last_arrival_us.max(planned));
        let patience = Duration::from_secs(self.round.job.patience);
        let enough = if self.is_complete() { LINGER } else { patience };
        planned > 0 && u128::from(quiet) >= enough.as_micros()
    }

    /// Takes note of an arrival, which has just come.
    pub(crate) fn take(&mut self, arrival: Arrival<'_>) {
        let now = now_us();
        self.last_arrival_us = now;
        let number = self.number(arrival.id);
        let place = number.and_then(|number| usize::try_from(number).ok());
        let (Some(number), Some(place)) =
            (number, place.filter(|place| *place < self.copies.len()))
        else {
            self.seen.strangers += 1;
            return;
        };
        self.copies[place] = self.copies[place].saturating_add(1);
        if self.copies[place] > 1 {
            self.seen.duplicates += 1;
        } else {
            self.distinct += 1;
        }
        if !is_body(arrival.body, number, self.round.job.body_bytes) {
            self.seen.garbled += 1;
        }
        if self.seen.first_arrival_us == 0 {
            self.seen.first_arrival_us = now;
        }
        self.seen.last_arrival_us = now;
        let due = self.mark(arrival.mark, now);
        if self.copies[place] == 1 {
            // A copy's place in the order says nothing more.
            self.place_in_order(arrival.partition, (due, number));
        }
        let planned = self.round.planned_us[place].load(Ordering::Acquire);
        self.overshoot.saturating_record(now.saturating_sub(planned));
    }

    /// The due of what xdelay released, in milliseconds; 0 for what came another way.
    fn mark(&mut self, mark: Option<(u64, Box<str>)>, now: u64) -> u64 {
        let Some((due, uid)) = mark else { return 0 };
        self.seen.marked += 1;
        self.uids.push(uid);
        let due_us = due * 1_000;
        if now < due_us {
            self.seen.early += 1;
        }
        self.lateness.saturating_record(now.saturating_sub(due_us));
        due
    }

    fn place_in_order(&mut self, partition: i32, place: (u64, u64)) {
        let highest = self.highest.entry(partition).or_default();
        if place < *highest {
            self.seen.out_of_order += 1;
        } else {
            *highest = place;
        }
    }

    fn number(&self, id: Option<&str>) -> Option<u64> {
        let (round, number) = id?.split_once('.')?;
        (round.parse() == Ok(self.round.name)).then(|| number.parse().ok())?
    }

    pub(crate) fn finish(mut self) -> Arrivals {
        let distinct: HashSet<&str> = self.uids.iter().map(AsRef::as_ref).collect();
        self.seen.duplicates_by_uid = (self.uids.len() - distinct.len()) as u64;
        self.seen.lost = self.round.job.messages - self.distinct;
        self.seen.lateness = quantiles(&self.lateness);
        self.seen.overshoot = quantiles(&self.overshoot);
        self.seen
    }
}

fn quantiles(of: &Histogram<u64>) -> Quantiles {
    let at = |quantile| of.value_at_quantile(quantile);
    Quantiles { p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999), max: of.max() }
}
