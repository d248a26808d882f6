//! Loop 2: what is due is claimed, published, and only when that is confirmed removed.
//!
//! Each destination has a loop of its own, so one that is failing or huge never slows another.
//! A [`turn`](ReleaseLoop::turn) publishes one batch while the last is concluded in the store
//! and, when there is a backlog, while the next is claimed; without one the claim comes last, so
//! that it finds what came due meanwhile. Publishing itself is one batch at a time, which keeps
//! the order of due.
//!
//! When a destination takes nothing (its exchange is missing, a right is refused, the broker is
//! blocked or away) its messages go back to parked without an attempt counted, and one message
//! at a time probes, with backoff, until it takes them again.

mod claim;
mod conclude;
mod limiter;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use self::limiter::Limiter;

use self::claim::Batch;
use self::conclude::Conclusions;
use crate::alarm::Alarm;
use crate::broker::{Broker, NotReleased, Released};
use crate::clock::{StoreClock, UnixMs, host_time, instant};
use crate::config;
use crate::crash::{self, Point};
use crate::finding::Finding;
use crate::health::Health;
use crate::message::{Destination, Reason};
use crate::metrics::DestinationMetrics;
use crate::retry::Backoff;
use crate::shutdown::Shutdown;
use crate::store::{Claim, Error, Lease, Store};

/// How often a sleeping loop looks for what others parked: a replica that parked something early
/// and died before its due would not ring our alarm.
const POLL_MAX: Duration = Duration::from_millis(250);
/// The same while nothing at all is parked.
const POLL_IDLE: Duration = Duration::from_secs(1);

/// What every destination's loop shares.
pub struct Shared {
    /// Where messages go.
    pub broker: Arc<dyn Broker>,
    /// Where they are parked.
    pub store: Arc<dyn Store>,
    /// `[release]`
    pub settings: config::Release,
    /// Most bytes of one claim.
    pub claim_bytes: u64,
    /// `release.max_in_flight` of this replica.
    pub in_flight: Arc<Semaphore>,
    /// `release.rate_limit` of this replica.
    pub limiter: Arc<Limiter>,
    /// The store's clock, for lateness.
    pub clock: Arc<StoreClock>,
    /// Told when a destination waits.
    pub health: Arc<Health>,
}

/// Releases the messages of one destination.
pub struct ReleaseLoop {
    shared: Arc<Shared>,
    destination: Destination,
    alarm: Arc<Alarm>,
    metrics: Arc<DestinationMetrics>,
    claimed: Option<Batch>,
    conclusions: Conclusions,
    /// The last claim took all it could: more is waiting.
    backlog: bool,
    /// Backs off while the destination takes nothing.
    waiting: Backoff,
    /// While it takes nothing: when to try the next message.
    probe_at: Option<Instant>,
    /// Backs off while the store does not answer.
    storeless: Backoff,
    /// An operator holds it back.
    paused: bool,
}

/// What became of a batch, its share of `release.max_in_flight` still taken.
type Outcomes = (Vec<(Lease, Result<Released, NotReleased>)>, Option<OwnedSemaphorePermit>);

/// When the next turn is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// There is more to do.
    Now,
    /// After this long, whatever is parked meanwhile.
    After(Duration),
    /// After this long, at the store's time given, or when something earlier is parked.
    AfterOrRung(Duration, UnixMs),
}

impl ReleaseLoop {
    /// A loop with nothing in hand.
    pub fn new(
        shared: Arc<Shared>,
        destination: Destination,
        alarm: Arc<Alarm>,
        metrics: Arc<DestinationMetrics>,
    ) -> Self {
        let config::Retry { first, max, .. } = shared.settings.retry;
        Self {
            shared,
            destination,
            alarm,
            metrics,
            claimed: None,
            conclusions: Conclusions::default(),
            backlog: false,
            waiting: Backoff::new(first, max.min(Duration::from_secs(30))),
            probe_at: None,
            storeless: Backoff::new(Duration::from_millis(50), Duration::from_secs(5)),
            paused: false,
        }
    }

    /// Runs until shutdown, then finishes what is in hand and leaves nothing leased.
    pub async fn run(mut self, mut shutdown: Shutdown) {
        while !shutdown.is_requested() {
            let wake = self.turn().await;
            let alarm = Arc::clone(&self.alarm);
            let sleep = async {
                match wake {
                    Wake::Now => {}
                    Wake::After(wait) => tokio::time::sleep(wait).await,
                    Wake::AfterOrRung(wait, until) => tokio::select! {
                        () = tokio::time::sleep(wait) => {}
                        () = alarm.rung(until) => {}
                    },
                }
            };
            tokio::select! {
                () = sleep => {}
                () = shutdown.requested() => {}
            }
        }
        self.finish().await;
    }

    /// Publishes the batch in hand, concludes the last one, and claims the next.
    pub async fn turn(&mut self) -> Wake {
        let batch = self.claimed.take();
        let conclusions = std::mem::take(&mut self.conclusions);
        let idle = batch.is_none();
        let claims = idle || self.backlog;
        let (released, claimed, (unconcluded, failure)) = tokio::join!(
            self.release(batch),
            async { if claims { Some(self.claim_ahead(idle).await) } else { None } },
            conclusions.apply(&self.shared, &self.destination, &self.metrics),
        );
        self.conclusions = unconcluded;
        let wake = match (failure, claimed) {
            (Some(error), claimed) => {
                // What was claimed all the same is released next; only the store is given time.
                if let Some(Ok(claimed)) = claimed {
                    self.take_claim(claimed);
                }
                self.storeless_for(&error)
            }
            (None, Some(Err(error))) => self.storeless_for(&error),
            (None, Some(Ok(claimed))) => self.take_claim(claimed),
            (None, None) => Wake::Now,
        };
        self.take_outcomes(released);
        match wake {
            Wake::AfterOrRung(..) if !self.conclusions.is_empty() => Wake::Now,
            Wake::After(_) if !self.conclusions.is_empty() && self.storeless.failures() == 0 => {
                Wake::Now
            }
            wake => wake,
        }
    }

    /// Concludes all that is in hand; called when no more is to be claimed.
    async fn finish(&mut self) {
        if let Some(batch) = self.claimed.take() {
            let reason = Reason::new("stopping", "this replica stops");
            for lease in batch.leases {
                self.conclusions.give_back(lease.into_ticket(), reason.clone());
            }
        }
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));
        while !self.conclusions.is_empty() {
            let conclusions = std::mem::take(&mut self.conclusions);
            let applied = conclusions.apply(&self.shared, &self.destination, &self.metrics).await;
            self.conclusions = applied.0;
            if !self.conclusions.is_empty() {
                tokio::time::sleep(backoff.failed()).await;
            }
        }
    }

    async fn release(&self, batch: Option<Batch>) -> Outcomes {
        let Some(Batch { leases, deadline, permit }) = batch else {
            return (Vec::new(), None);
        };
        let late = instant() + self.shared.settings.lease / 8 >= deadline;
        if late {
            // Claimed ahead, and held up since: whoever claims it next has the time for it.
            let reason = Reason::new("late", "its lease would end before its confirm");
            let late = |lease| (lease, Err(NotReleased::Late(reason.clone())));
            return (leases.into_iter().map(late).collect(), Some(permit));
        }
        crash::pass(Point::ClaimedUnpublished);
        let traced = self.metrics.traces().map(|traces| (traces, host_time()));
        let broker = &self.shared.broker;
        let outcomes = broker.release(&self.destination, &leases, deadline).await;
        assert_eq!(outcomes.len(), leases.len(), "every lease has an outcome");
        if let Some((traces, began)) = traced {
            traces.released(&self.destination, &leases, &outcomes, began);
        }
        (leases.into_iter().zip(outcomes).collect(), Some(permit))
    }

    fn take_claim(&mut self, claimed: Option<(Claim, Batch)>) -> Wake {
        let Some((claim, batch)) = claimed else {
            let probe = self.probe_at.map(|at| at.saturating_duration_since(instant()));
            return Wake::After(probe.unwrap_or(self.shared.limiter.refill()));
        };
        if self.storeless.failures() > 0 {
            self.storeless.reset();
            self.report(Finding::good(self.subject("store"), "answers again"));
        }
        if self.paused != claim.paused {
            self.paused = claim.paused;
            self.report(match claim.paused {
                true => Finding::warning(self.subject("release"), "paused by an operator"),
                false => Finding::good(self.subject("release"), "goes on"),
            });
        }
        if claim.paused && claim.is_empty() && batch.leases.is_empty() {
            self.backlog = false;
            return Wake::After(POLL_MAX);
        }
        self.metrics.buried_by_store("body-missing", claim.bodiless);
        for unreadable in claim.unreadable {
            let newer = self.shared.settings.retry.max;
            self.conclusions.unreadable(unreadable, newer, &self.metrics);
        }
        // Beside one that is claimed alone nothing is claimed ahead.
        self.backlog = !claim.alone && claim.next_due.is_some_and(|due| due <= claim.now);
        if !batch.leases.is_empty() {
            self.claimed = Some(batch);
            return Wake::Now;
        }
        // Nothing is left to wait for: what waited was cancelled, or others released it.
        self.end_waiting();
        let (until, poll) = match claim.next_due {
            Some(due) => (due, POLL_MAX),
            None => (UnixMs::MAX, POLL_IDLE),
        };
        let wait = Duration::from_millis(until.saturating_sub(claim.now)).min(poll);
        Wake::AfterOrRung(wait, until)
    }

    fn storeless_for(&mut self, error: &Error) -> Wake {
        let detail = format!("what is due waits, the store does not answer: {error}");
        self.report(Finding::bad(self.subject("store"), detail));
        Wake::After(self.storeless.failed())
    }

    fn take_outcomes(&mut self, (outcomes, permit): Outcomes) {
        self.conclusions.hold(permit);
        let now = self.shared.clock.now();
        let (mut held_up, mut unconfirmed, mut took_one) = (None, None, false);
        let mut gone = Vec::with_capacity(outcomes.len());
        for (lease, outcome) in outcomes {
            match outcome {
                Ok(released) => {
                    took_one = true;
                    let message = lease.message();
                    gone.push((message.uid.clone(), message.id.clone(), lease.due()));
                    self.conclusions.settle(lease.into_ticket(), released);
                }
                Err(NotReleased::Refused(reason)) => {
                    took_one = true;
                    let retry = &self.shared.settings.retry;
                    self.conclusions.refused(lease, reason, retry, &self.metrics);
                }
                Err(NotReleased::Hopeless(reason)) => {
                    self.conclusions.bury(lease.into_ticket(), reason);
                }
                Err(NotReleased::Waiting(reason)) => {
                    self.metrics.postponed(&reason);
                    held_up.get_or_insert_with(|| reason.clone());
                    self.conclusions.give_back(lease.into_ticket(), reason);
                }
                Err(NotReleased::Late(reason)) => {
                    self.metrics.postponed(&reason);
                    self.conclusions.give_back(lease.into_ticket(), reason);
                }
                Err(NotReleased::Unconfirmed(reason)) => {
                    self.metrics.postponed(&reason);
                    unconfirmed.get_or_insert_with(|| reason.clone());
                    let wait = self.shared.settings.lease;
                    self.conclusions.put_off(lease.into_ticket(), wait, reason);
                }
            }
        }
        if !gone.is_empty() {
            self.metrics.released(gone, now);
        }
        match (held_up, unconfirmed) {
            (Some(reason), _) => self.begin_waiting(&reason),
            (None, Some(reason)) if !took_one => self.begin_waiting(&reason),
            _ if took_one => self.end_waiting(),
            _ => {}
        }
    }

    /// The destination takes nothing: what was claimed ahead goes back too, and a probe follows.
    fn begin_waiting(&mut self, reason: &Reason) {
        self.probe_at = Some(instant() + self.waiting.failed());
        if let Some(batch) = self.claimed.take() {
            for lease in batch.leases {
                self.conclusions.give_back(lease.into_ticket(), reason.clone());
            }
        }
        let detail = format!("waits, its messages stay parked, probing: {reason}");
        self.report(Finding::bad(self.subject("release"), detail));
    }

    fn end_waiting(&mut self) {
        if self.probe_at.take().is_some() {
            self.waiting.reset();
            self.report(Finding::good(self.subject("release"), "takes messages again"));
        }
    }

    fn subject(&self, part: &str) -> String {
        format!("{part} {}", self.destination)
    }

    fn report(&self, finding: Finding) {
        self.shared.health.report(finding);
    }
}
