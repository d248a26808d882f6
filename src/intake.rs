//! Loop 1: a capture comes in, is made durable, and only then is the broker told.
//!
//! One batch at a time for each destination, in the order of capture: a cancel never overtakes
//! the park it follows, since the next batch waits until this one is safe. While the store is
//! away a batch waits here and the broker keeps the rest: nothing is nacked, nothing is dropped,
//! and what was not acked comes again after a crash. What was read from a log moves the log's mark
//! with it; where the mark is elsewhere, its reader is told and reads from there.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use crate::broker::{Broker, Delivery, Receipt};
use crate::clock::host_time;
use crate::config::OnInvalid;
use crate::crash::{self, Point};
use crate::delay::{When, Wish};
use crate::destinations::Destinations;
use crate::finding::Finding;
use crate::health::Health;
use crate::message::{Destination, Message, Reason};
use crate::metrics::Metrics;
use crate::retry::Backoff;
use crate::shutdown::Shutdown;
use crate::store::{Author, Entry, Error, NOT_YOURS, Origin, Outcome, Parkings, Stand, Store};

/// The shortest time from one batch to the next. Every batch is synced to disk, so under load it
/// pays to let a few messages gather; one that comes after a pause does not wait.
const GATHER: Duration = Duration::from_millis(4);

/// Takes in what one broker captured.
pub struct IntakeLoop {
    /// Where captures come from.
    pub broker: Arc<dyn Broker>,
    /// Where they are parked.
    pub store: Arc<dyn Store>,
    /// What becomes of a delay that cannot be read.
    pub on_invalid: OnInvalid,
    /// Opened before the first park, and rung when something is parked that is due soon.
    pub destinations: Arc<Destinations>,
    /// Told when the store does not take what comes in.
    pub health: Arc<Health>,
    /// Counts.
    pub metrics: Arc<Metrics>,
}

impl IntakeLoop {
    /// Runs until shutdown, then takes no more and finishes what it has in hand.
    pub async fn run(self, mut shutdown: Shutdown) {
        let mut intake = self.broker.intake().await;
        let mut stopping = false;
        loop {
            let batch = tokio::select! {
                () = shutdown.requested(), if !stopping => {
                    stopping = true;
                    intake.stop().await;
                    continue;
                }
                batch = intake.next() => batch,
            };
            let Some(batch) = batch else { break };
            let gathered = tokio::time::Instant::now() + GATHER;
            self.run_once(batch, &shutdown).await;
            if !stopping {
                tokio::time::sleep_until(gathered).await;
            }
        }
        crash::pass(Point::StoppedUnflushed);
        intake.flush().await;
    }

    /// Makes one batch durable and acks it, destination by destination, side by side.
    pub async fn run_once(&self, batch: Vec<Delivery>, shutdown: &Shutdown) {
        // What comes from no log has no mark to move: it is parked apart from what does.
        let mut by_destination: HashMap<(Destination, bool), Batch> = HashMap::new();
        for delivery in batch {
            let destination = delivery.destination.clone();
            let origin = delivery.origin;
            let (entry, receipt) = self.read(delivery);
            let batch = by_destination.entry((destination, origin.is_some())).or_default();
            batch.push(entry, receipt, origin);
        }
        let secured = by_destination
            .into_iter()
            .map(|((destination, _), batch)| self.secure(destination, batch, shutdown.clone()));
        join_all(secured).await;
    }

    fn read(&self, delivery: Delivery) -> (Entry, Receipt) {
        let Delivery { uid, content, priority, wish, delay_ms, receipt, .. } = delivery;
        let (wish, by) = (self.or_at_once(wish), Author::Producer);
        let entry = match wish {
            Ok(Wish::Cancel(id)) => Entry::Cancel { user: content.user_id(), uid, id },
            Ok(Wish::Hold(when, id)) => {
                Entry::Park { message: Message { uid, id, delay_ms, content }, when, priority, by }
            }
            Err(reason) => {
                Entry::Bury { message: Message { uid, id: None, delay_ms: None, content }, reason }
            }
        };
        (entry, receipt)
    }

    /// With `delay.on_invalid = "forward"` a delay that cannot be read is none.
    fn or_at_once(&self, wish: Result<Wish, Reason>) -> Result<Wish, Reason> {
        match (wish, self.on_invalid) {
            (Err(reason), OnInvalid::Forward) if reason.label() == "invalid" => {
                Ok(Wish::Hold(When::AtOnce, None))
            }
            (wish, _) => wish,
        }
    }

    /// Parks until it is done, or until shutdown while the store is away: then nothing is acked,
    /// and the broker delivers it again.
    async fn secure(&self, destination: Destination, mut batch: Batch, mut shutdown: Shutdown) {
        crash::pass(Point::CapturedUnparked);
        let traced = self.metrics.traces().map(|traces| (traces, host_time()));
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));
        let (alarm, parkings) = loop {
            let parked = async {
                let alarm = self.destinations.open(&destination).await?;
                Ok((
                    alarm,
                    self.store.park_read(&destination, &batch.entries, &batch.origins).await?,
                ))
            };
            match parked.await {
                Ok(parked) => break parked,
                // Its reader goes back there; what was read of other logs is parked without it.
                Err(Error::Moved(stands)) => batch.tell_moved(&stands),
                Err(error) => {
                    self.say_unparked(&destination, &error);
                    tokio::select! {
                        () = tokio::time::sleep(backoff.failed()) => {}
                        () = shutdown.requested() => return,
                    }
                }
            }
            batch = batch.without_void();
            if batch.entries.is_empty() {
                if backoff.failures() > 0 {
                    // Whoever has them now says how that goes; here nothing may come in for long.
                    self.say_well(&destination, "nothing waits: the broker took back what did");
                }
                return;
            }
        };
        if backoff.failures() > 0 {
            self.say_well(&destination, "parks again");
        }
        self.account(&destination, &batch.entries, &parkings);
        if let Some((traces, began)) = traced {
            traces.captured(&destination, &batch.entries, &parkings.entries, began);
        }
        crash::pass(Point::ParkedUnacked);
        for (receipt, parking) in batch.receipts.into_iter().zip(parkings.entries) {
            receipt.ack(parking.proof);
        }
        if let Some(due) = parkings.earliest_due {
            alarm.ring_for(due);
        }
    }

    fn account(&self, destination: &Destination, entries: &[Entry], parkings: &Parkings) {
        let metrics = self.metrics.of(destination);
        metrics.taken_in(entries.len());
        for (entry, parking) in entries.iter().zip(&parkings.entries) {
            metrics.captured(entry, parking.outcome);
            match (entry, parking.outcome) {
                (Entry::Bury { message, reason }, Outcome::Buried) => {
                    metrics.buried(&message.uid, message.id.clone(), reason);
                    tracing::warn!(%destination, uid = %message.uid, %reason, "buried a message");
                }
                (Entry::Park { message, .. }, Outcome::NotYours) => {
                    let reason = Reason::new("not-yours", NOT_YOURS);
                    metrics.refused("replace");
                    metrics.buried(&message.uid, message.id.clone(), &reason);
                    let id = message.id.as_ref().map(tracing::field::display);
                    tracing::warn!(%destination, uid = %message.uid, id, %reason, "buried a message");
                }
                (Entry::Cancel { uid, id, .. }, Outcome::NotYours) => {
                    metrics.refused("cancel");
                    let why =
                        "a cancel has no effect: the message of its id carries another user-id";
                    tracing::warn!(%destination, %uid, %id, "{why}");
                }
                (Entry::Cancel { id, .. }, outcome) => {
                    tracing::debug!(%destination, %id, ?outcome, "cancel");
                }
                _ => {}
            }
        }
        if parkings.rolled_back {
            metrics.rolled_back();
            tracing::error!(
                %destination,
                "the store went back to an older state: what was parked since then is lost there"
            );
        }
    }

    fn say_well(&self, destination: &Destination, detail: &str) {
        self.health.report(Finding::good(subject(destination), detail));
    }

    fn say_unparked(&self, destination: &Destination, error: &Error) {
        let detail = format!("nothing is parked, the broker keeps what comes in: {error}");
        self.health.report(Finding::bad(subject(destination), detail));
    }
}

/// Captures for one destination, in order.
#[derive(Default)]
struct Batch {
    entries: Vec<Entry>,
    receipts: Vec<Receipt>,
    /// Where each was read; empty when they come from no log.
    origins: Vec<Origin>,
}

impl Batch {
    fn push(&mut self, entry: Entry, receipt: Receipt, origin: Option<Origin>) {
        self.entries.push(entry);
        self.receipts.push(receipt);
        self.origins.extend(origin);
    }

    /// Tells those that were read from these logs that the store stands elsewhere.
    fn tell_moved(&self, stands: &[Stand]) {
        for (receipt, origin) in self.receipts.iter().zip(&self.origins) {
            if stands.iter().any(|stand| stand.log == origin.log) {
                receipt.moved();
            }
        }
    }

    /// Drops what the broker took back or reads again.
    fn without_void(self) -> Self {
        let mut kept = Self::default();
        let mut origins = self.origins.into_iter();
        for (entry, receipt) in self.entries.into_iter().zip(self.receipts) {
            let origin = origins.next();
            if !receipt.is_void() {
                kept.push(entry, receipt, origin);
            }
        }
        kept
    }
}

fn subject(destination: &Destination) -> String {
    format!("intake {destination}")
}
