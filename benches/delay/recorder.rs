//! Accounts for every arrival: lost, twice, out of order, early, late, changed.
//!
//! Little is done per arrival, since what is done here takes time from those who are measured;
//! uids are only kept, and compared at the end. A message that xdelay released brings a longer
//! header to read than a relayed one, which counts against xdelay, as it would in an application.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hdrhistogram::Histogram;
use lapin::message::Delivery;
use lapin::types::{AMQPValue, FieldTable};

use crate::job::{Arrivals, Quantiles};
use crate::load::Round;
use crate::publisher::body;

/// Lateness beyond this many microseconds is recorded as this: ten minutes.
const LATEST_US: u64 = 600_000_000;

/// Of one round.
pub(crate) struct Recorder {
    round: Arc<Round>,
    /// How often each message arrived.
    copies: Vec<u8>,
    distinct: u64,
    uids: Vec<Box<str>>,
    /// Due and number of the arrival that should come last so far.
    highest: (u64, u64),
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
            highest: (0, 0),
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

    /// Takes note of an arrival at `now`.
    pub(crate) fn take(&mut self, delivery: &Delivery, now: u64) {
        let Some(number) = self.number(delivery) else {
            self.seen.strangers += 1;
            return;
        };
        let Some(place) = usize::try_from(number).ok().filter(|place| *place < self.copies.len())
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
        if delivery.data != body(number) {
            self.seen.garbled += 1;
        }
        self.seen.last_arrival_us = now;
        let due = self.mark(delivery, now);
        if self.copies[place] == 1 {
            // A copy's place in the order says nothing more.
            self.place_in_order((due, number));
        }
        let planned = self.round.planned_us[place].load(Ordering::Acquire);
        self.overshoot.saturating_record(now.saturating_sub(planned));
    }

    /// The due of what xdelay released, in milliseconds; 0 for what came another way.
    fn mark(&mut self, delivery: &Delivery, now: u64) -> u64 {
        let Some((due, uid)) = delivery.properties.headers().as_ref().and_then(mark) else {
            return 0;
        };
        self.seen.marked += 1;
        self.uids.push(uid);
        let due_us = due * 1_000;
        if now < due_us {
            self.seen.early += 1;
        }
        self.lateness.saturating_record(now.saturating_sub(due_us));
        due
    }

    fn place_in_order(&mut self, place: (u64, u64)) {
        if place < self.highest {
            self.seen.out_of_order += 1;
        } else {
            self.highest = place;
        }
    }

    fn number(&self, delivery: &Delivery) -> Option<u64> {
        let id = delivery.properties.message_id().as_ref()?;
        let (round, number) = id.as_str().split_once('.')?;
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

/// What xdelay put on a message it released: due and uid.
fn mark(headers: &FieldTable) -> Option<(u64, Box<str>)> {
    let headers = headers.inner();
    let due = match headers.get("x-delayed-due")? {
        AMQPValue::LongLongInt(due) => u64::try_from(*due).ok()?,
        _ => return None,
    };
    match headers.get("x-delayed-uid")? {
        AMQPValue::LongString(uid) => Some((due, uid.to_string().into())),
        _ => None,
    }
}

fn quantiles(of: &Histogram<u64>) -> Quantiles {
    let at = |quantile| of.value_at_quantile(quantile);
    Quantiles { p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999), max: of.max() }
}
