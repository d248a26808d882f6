//! What is published when, and when it is to arrive.
//!
//! At a rate, every message has an instant that does not move: when the broker is slow, what
//! should have been published meanwhile is late by all of it, and is recorded so (no coordinated
//! omission). Timers here tick by the millisecond, which adds up to one to what the overshoot
//! shows; lateness, counted from the due, is free of it.

use std::sync::atomic::Ordering;

use anyhow::Context;

use crate::clock::now_us;
use crate::job::{Delay, Outcome};
use crate::load::Round;

/// The plan of one round, in the order of publishing.
pub(crate) struct Plan<'a> {
    round: &'a Round,
    start_us: u64,
    last_arrives_us: u64,
    random: fastrand::Rng,
}

/// The header that asks for a delay.
pub(crate) type Header = (&'static str, u64);

impl<'a> Plan<'a> {
    pub(crate) fn new(round: &'a Round) -> Self {
        let random = fastrand::Rng::with_seed(round.job.messages);
        Self { round, start_us: now_us(), last_arrives_us: 0, random }
    }

    /// The instant at which to publish message `number`, when there is a schedule.
    pub(crate) fn publish_at(&self, number: u64) -> Option<u64> {
        self.round.job.rate.map(|rate| self.start_us + number * 1_000_000 / rate)
    }

    /// Message `number` is published at `at`: notes when it is to arrive, and answers its header.
    pub(crate) fn message(&mut self, number: u64, at: u64) -> anyhow::Result<Option<Header>> {
        let (header, mut arrives_us) = match self.round.job.delay {
            Delay::Unasked => (None, at),
            Delay::Each(ms) => (Some(("x-delay", ms)), at + ms * 1_000),
            Delay::Between(from, to) => {
                let ms = self.random.u64(from..=to);
                (Some(("x-delay", ms)), at + ms * 1_000)
            }
            Delay::Together(ms) => {
                let due = self.start_us / 1_000 + ms;
                (Some(("x-deliver-at", due)), due * 1_000)
            }
        };
        if !self.round.job.held {
            // Nobody on this way heeds the header, which is there to make messages equal.
            arrives_us = at;
        }
        self.last_arrives_us = self.last_arrives_us.max(arrives_us);
        let place = usize::try_from(number).context("too many messages")?;
        self.round.planned_us[place].store(arrives_us, Ordering::Release);
        Ok(header)
    }

    /// All is confirmed.
    pub(crate) fn end(self) -> Outcome {
        let last_confirm_us = now_us();
        // At a rate the schedule says when, however long the broker took.
        let unscheduled = if self.round.job.rate.is_some() { 0 } else { last_confirm_us };
        let last_planned_us = self.last_arrives_us.max(unscheduled);
        self.round.last_planned_us.store(last_planned_us, Ordering::Release);
        Outcome {
            messages: self.round.job.messages,
            held: self.round.job.held,
            first_publish_us: self.start_us,
            last_confirm_us,
            last_planned_us,
            arrived: None,
            peak_memory: None,
        }
    }
}

/// What message `number` holds: its number again and again.
pub(crate) fn body(number: u64, bytes: usize) -> Vec<u8> {
    let mut body = number.to_be_bytes().repeat(bytes.div_ceil(8));
    body.truncate(bytes);
    body
}

/// Whether `body` is what message `number` held.
pub(crate) fn is_body(body: &[u8], number: u64, bytes: usize) -> bool {
    let number = number.to_be_bytes();
    body.len() == bytes && body.chunks(number.len()).all(|part| *part == number[..part.len()])
}
