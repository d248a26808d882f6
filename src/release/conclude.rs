//! What became of leased messages, on the way to the store.
//!
//! A conclusion whose call fails is kept and tried again: the broker has confirmed a release, and
//! that stays true however long the store is away. Only when a lease runs out first may another
//! replica release its message a second time.

use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;

use super::Shared;
use crate::broker::Released;
use crate::config::{self, Retry};
use crate::crash::{self, Point};
use crate::dead;
use crate::message::{Destination, Reason};
use crate::metrics::DestinationMetrics;
use crate::retry::wait_after;
use crate::store::{Error, Fault, Lease, NotDone, Postponed, Ticket, Unreadable};

/// Conclusions not yet in the store.
#[derive(Debug, Default)]
pub(super) struct Conclusions {
    settled: Vec<(Ticket, Released)>,
    postponed: Vec<Postponed>,
    /// To be buried, if there is room for more dead.
    doomed: Vec<(Ticket, Reason)>,
    buried: Vec<(Ticket, Reason)>,
    permits: Vec<OwnedSemaphorePermit>,
    /// Some of it was sent before and may have been applied then.
    again: bool,
}

impl Conclusions {
    pub(super) fn is_empty(&self) -> bool {
        self.settled.is_empty()
            && self.postponed.is_empty()
            && self.doomed.is_empty()
            && self.buried.is_empty()
    }

    /// Keeps a share of `release.max_in_flight` until all is concluded.
    pub(super) fn hold(&mut self, permit: Option<OwnedSemaphorePermit>) {
        self.permits.extend(permit);
    }

    pub(super) fn settle(&mut self, ticket: Ticket, released: Released) {
        self.settled.push((ticket, released));
    }

    pub(super) fn bury(&mut self, ticket: Ticket, reason: Reason) {
        self.doomed.push((ticket, reason));
    }

    /// Puts it back as it was: to its due, with no attempt counted.
    pub(super) fn give_back(&mut self, ticket: Ticket, reason: Reason) {
        self.put_off(ticket, Duration::ZERO, reason);
    }

    /// Puts it back to be claimed after a wait, with no attempt counted.
    pub(super) fn put_off(&mut self, ticket: Ticket, wait: Duration, reason: Reason) {
        self.postponed.push(Postponed { ticket, wait, counts: false, reason });
    }

    /// Refused by the broker: tried again later, and after the last attempt buried.
    pub(super) fn refused(
        &mut self,
        lease: Lease,
        reason: Reason,
        retry: &Retry,
        metrics: &DestinationMetrics,
    ) {
        let tried = lease.attempts() + 1;
        if tried >= retry.attempts {
            let text = format!("given up after {tried} attempts: {reason}");
            let reason = Reason::new(reason.label(), text);
            self.bury(lease.into_ticket(), reason);
            return;
        }
        metrics.postponed(&reason);
        tracing::debug!(uid = %lease.message().uid, %reason, tried, "postpones a message");
        self.postponed.push(Postponed {
            wait: wait_after(lease.attempts(), retry.first, retry.max),
            ticket: lease.into_ticket(),
            counts: true,
            reason,
        });
    }

    /// Not readable here: left for a newer version if that is why, else buried.
    pub(super) fn unreadable(
        &mut self,
        unreadable: Unreadable,
        newer_wait: Duration,
        metrics: &DestinationMetrics,
    ) {
        let Unreadable { ticket, fault } = unreadable;
        match fault {
            Fault::Newer { .. } => {
                let reason = Reason::new("newer-version", fault.to_string());
                metrics.postponed(&reason);
                self.postponed.push(Postponed { ticket, wait: newer_wait, counts: false, reason });
            }
            Fault::Damaged(_) => {
                let reason = Reason::new("damaged", fault.to_string());
                self.bury(ticket, reason);
            }
        }
    }

    /// Buries what is doomed as far as there is room; what is not will be tried again. Gives back
    /// the error of a store that cannot tell.
    async fn seal(
        &mut self,
        shared: &Shared,
        destination: &Destination,
        metrics: &DestinationMetrics,
    ) -> Option<Error> {
        if self.doomed.is_empty() {
            return None;
        }
        let config::Release { dead_max, retry, .. } = &shared.settings;
        let mut room = usize::MAX;
        if dead_max.is_some() {
            match shared.store.census(destination).await {
                Ok(census) => room = dead::room(*dead_max, census.dead),
                Err(error) => return Some(error),
            }
        }
        for (ticket, reason) in std::mem::take(&mut self.doomed) {
            if room == 0 {
                tracing::debug!(uid = %ticket.uid(), %reason, "puts off a burial: too many are dead");
                let reason = Reason::new("dead-full", format!("no room among the dead: {reason}"));
                metrics.postponed(&reason);
                self.put_off(ticket, retry.max, reason);
                continue;
            }
            room -= 1;
            metrics.buried(ticket.uid(), ticket.id().cloned(), &reason);
            tracing::warn!(uid = %ticket.uid(), %reason, "buries a message");
            self.buried.push((ticket, reason));
        }
        if room == 0
            && let Some(full) = dead::finding(*dead_max, destination, u64::MAX)
        {
            shared.health.report(full);
        }
        None
    }

    /// Writes all of it; gives back what the store did not take, with its error.
    pub(super) async fn apply(
        mut self,
        shared: &Shared,
        destination: &Destination,
        metrics: &DestinationMetrics,
    ) -> (Self, Option<Error>) {
        let unsealed = self.seal(shared, destination, metrics).await;
        for (some, point) in [
            (!self.settled.is_empty(), Point::ConfirmedUnsettled),
            (!self.postponed.is_empty(), Point::UnreleasedUnpostponed),
            (!self.buried.is_empty(), Point::UnreleasedUnburied),
        ] {
            if some {
                crash::pass(point);
            }
        }
        let store = &*shared.store;
        let (settled, postponed, buried) = tokio::join!(
            write(self.settled, |batch| store.settle(destination, batch)),
            write(self.postponed, |batch| store.postpone(destination, batch)),
            write(self.buried, |batch| store.bury(destination, batch)),
        );
        // What is missing the second time may have been concluded the first time.
        if !self.again {
            metrics.late_settles(settled.lost + postponed.lost + buried.lost);
        }
        self.settled = settled.left;
        self.postponed = postponed.left;
        self.buried = buried.left;
        let failure = unsealed.or(settled.failure).or(postponed.failure).or(buried.failure);
        self.again = failure.is_some();
        if failure.is_none() {
            self.permits.clear();
        }
        (self, failure)
    }
}

/// What came of one kind of conclusion.
struct Written<T> {
    left: Vec<T>,
    /// How many tickets no longer held their message.
    lost: usize,
    failure: Option<Error>,
}

async fn write<T, F, W>(batch: Vec<T>, call: F) -> Written<T>
where
    T: std::fmt::Debug,
    F: FnOnce(Vec<T>) -> W,
    W: Future<Output = Result<usize, NotDone<T>>>,
{
    let mut written = Written { left: Vec::new(), lost: 0, failure: None };
    let all = batch.len();
    if all == 0 {
        return written;
    }
    match call(batch).await {
        Ok(held) => written.lost = all - held,
        Err(NotDone { source, batch }) => {
            written.left = batch;
            written.failure = Some(source);
        }
    }
    written
}
