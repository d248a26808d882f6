//! What is counted and measured, with every name in one place.
//!
//! Counters and the lateness histogram are fed by the loops; the gauges of what is parked are
//! read from the store when somebody looks, so that they equal it.

mod proxy;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

pub use self::proxy::{OpenConnection, ProxyMetrics, TurnedAway};
use crate::clock::{StoreClock, UnixMs};
use crate::dead::{self, DeadMax};
use crate::finding::{Finding, Grade};
use crate::history::{History, What};
use crate::message::{Destination, ProducerId, Reason, Uid};
use crate::store::{Census, DUE_IN_BOUNDS_MS, Entry, Outcome};
use crate::traces::Traces;

type Labels = Vec<(&'static str, String)>;

/// Seconds; fine where the promise is made, coarse where it is broken.
const LATENESS_BOUNDS: [f64; 15] =
    [0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0, 300.0, 3600.0];

/// Everything that `/metrics` shows.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    captured: Family<Labels, Counter>,
    released: Family<Labels, Counter>,
    cancelled: Family<Labels, Counter>,
    replaced: Family<Labels, Counter>,
    refused: Family<Labels, Counter>,
    dropped: Family<Labels, Counter>,
    postponed: Family<Labels, Counter>,
    buried: Family<Labels, Counter>,
    recovered: Family<Labels, Counter>,
    rolled_back: Family<Labels, Counter>,
    late_settles: Family<Labels, Counter>,
    missed: Family<Labels, Counter>,
    recreated: Family<Labels, Counter>,
    lateness: Family<Labels, Histogram>,
    parked: Family<Labels, Gauge>,
    leased: Family<Labels, Gauge>,
    dead: Family<Labels, Gauge>,
    dead_full: Family<Labels, Gauge>,
    overdue: Family<Labels, Gauge>,
    paused: Family<Labels, Gauge>,
    oldest_overdue: Family<Labels, Gauge>,
    due_in: Family<Labels, Gauge>,
    healthy: Family<Labels, Gauge>,
    reconnects: Family<Labels, Counter>,
    proxy: ProxyMetrics,
    of: Mutex<HashMap<Destination, Arc<DestinationMetrics>>>,
    history: Arc<History>,
    traces: Option<Arc<Traces>>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new(Arc::default())
    }
}

impl Metrics {
    /// All zero. `clock` is the store's, for what is told of the last hour.
    pub fn new(clock: Arc<StoreClock>) -> Self {
        let lateness =
            Family::new_with_constructor((|| Histogram::new(LATENESS_BOUNDS)) as fn() -> Histogram);
        let mut metrics = Self {
            registry: Registry::with_prefix("xdelay"),
            captured: Family::default(),
            released: Family::default(),
            cancelled: Family::default(),
            replaced: Family::default(),
            refused: Family::default(),
            dropped: Family::default(),
            postponed: Family::default(),
            buried: Family::default(),
            recovered: Family::default(),
            rolled_back: Family::default(),
            late_settles: Family::default(),
            missed: Family::default(),
            recreated: Family::default(),
            lateness,
            parked: Family::default(),
            leased: Family::default(),
            dead: Family::default(),
            dead_full: Family::default(),
            overdue: Family::default(),
            paused: Family::default(),
            oldest_overdue: Family::default(),
            due_in: Family::default(),
            healthy: Family::default(),
            reconnects: Family::default(),
            proxy: ProxyMetrics::default(),
            of: Mutex::default(),
            history: Arc::new(History::new(clock)),
            traces: None,
        };
        metrics.register();
        metrics
    }

    /// The same, and messages are traced one by one.
    pub fn with_traces(self, traces: Option<Arc<Traces>>) -> Self {
        Self { traces, ..self }
    }

    /// Where messages are traced, if they are.
    pub fn traces(&self) -> Option<&Arc<Traces>> {
        self.traces.as_ref()
    }

    /// What happened lately.
    pub fn history(&self) -> &Arc<History> {
        &self.history
    }

    /// Names and explains each; a counter's name gets `_total` where it is shown.
    fn register(&mut self) {
        let to = &mut self.registry;
        to.register("captured", "Messages taken in and made durable", self.captured.clone());
        to.register("released", "Messages published and confirmed", self.released.clone());
        to.register("cancelled", "Parked messages ended by a cancel", self.cancelled.clone());
        to.register("replaced", "Parked messages replaced under their id", self.replaced.clone());
        let help = "Replaces and cancels of what carries another user-id, by step";
        to.register("refused", help, self.refused.clone());
        to.register("dropped", "Unroutable messages dropped, as configured", self.dropped.clone());
        to.register("postponed", "Releases put off, by reason", self.postponed.clone());
        to.register("buried", "Messages kept as dead, by reason", self.buried.clone());
        to.register("recovered", "Messages of lost holders given back", self.recovered.clone());
        let help = "Times the store answered an older state than before";
        to.register("store_rolled_back", help, self.rolled_back.clone());
        let help = "Releases whose lease had gone to another";
        to.register("late_settles", help, self.late_settles.clone());
        let help = "Records that retention removed before they were read";
        to.register("missed", help, self.missed.clone());
        let help = "Times a capture topic turned out to be another one under its name";
        to.register("recreated", help, self.recreated.clone());
        to.register("lateness_seconds", "Time of release minus due", self.lateness.clone());
        to.register("parked", "Messages waiting for their due", self.parked.clone());
        to.register("leased", "Messages being released", self.leased.clone());
        to.register("dead", "Messages buried", self.dead.clone());
        let help = "1 while there are as many dead as release.dead_max";
        to.register("dead_full", help, self.dead_full.clone());
        to.register("overdue", "Parked messages that may be tried now", self.overdue.clone());
        to.register("paused", "1 while an operator holds releases back", self.paused.clone());
        let help = "How long the first parked message could have been tried";
        to.register("oldest_overdue_seconds", help, self.oldest_overdue.clone());
        let help = "Parked messages with at most `le` seconds to their due";
        to.register("due_in_seconds", help, self.due_in.clone());
        to.register("healthy", "1 while a part is well, 0 while it is not", self.healthy.clone());
        to.register("reconnects", "Connections made anew", self.reconnects.clone());
        self.proxy.register(to);
    }

    /// The counters of one destination.
    pub fn of(&self, destination: &Destination) -> Arc<DestinationMetrics> {
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        let metrics = of.entry(destination.clone()).or_insert_with(|| {
            let labels = labels(destination);
            Arc::new(DestinationMetrics {
                captured: self.captured.get_or_create(&labels).clone(),
                released: self.released.get_or_create(&labels).clone(),
                cancelled: self.cancelled.get_or_create(&labels).clone(),
                replaced: self.replaced.get_or_create(&labels).clone(),
                dropped: self.dropped.get_or_create(&labels).clone(),
                recovered: self.recovered.get_or_create(&labels).clone(),
                rolled_back: self.rolled_back.get_or_create(&labels).clone(),
                late_settles: self.late_settles.get_or_create(&labels).clone(),
                missed: self.missed.clone(),
                recreated: self.recreated.clone(),
                lateness: self.lateness.get_or_create(&labels).clone(),
                refused: self.refused.clone(),
                postponed: self.postponed.clone(),
                buried: self.buried.clone(),
                labels,
                destination: destination.clone(),
                history: Arc::clone(&self.history),
                traces: self.traces.clone(),
            })
        });
        Arc::clone(metrics)
    }

    /// What is counted of the proxy.
    pub fn proxy(&self) -> &ProxyMetrics {
        &self.proxy
    }

    /// A connection was made anew.
    pub fn reconnected(&self, link: &str) {
        self.reconnects.get_or_create(&vec![("link", link.to_owned())]).inc();
    }

    /// Shows what the store counted.
    pub fn show_census(&self, destination: &Destination, census: &Census, dead_max: DeadMax) {
        let labels = labels(destination);
        let set = |family: &Family<Labels, Gauge>, count: u64| {
            family.get_or_create(&labels).set(count as i64);
        };
        set(&self.parked, census.parked);
        set(&self.leased, census.leased);
        set(&self.dead, census.dead);
        set(&self.dead_full, u64::from(dead::room(dead_max, census.dead) == 0));
        set(&self.overdue, census.overdue);
        set(&self.paused, u64::from(census.paused));
        let waited = census.next.map_or(0, |next| census.now.saturating_sub(next));
        set(&self.oldest_overdue, waited / 1_000);
        let bounds = DUE_IN_BOUNDS_MS.iter().map(|ms| (ms / 1_000).to_string());
        let within = census.due_within.iter().chain([&census.parked]);
        for (bound, count) in bounds.chain(["+Inf".to_owned()]).zip(within) {
            let mut labels = labels.clone();
            labels.push(("le", bound));
            self.due_in.get_or_create(&labels).set(*count as i64);
        }
    }

    /// Shows the health of every part.
    pub fn show_health(&self, findings: &[Finding]) {
        self.healthy.clear();
        for finding in findings {
            let healthy = i64::from(finding.grade != Grade::Bad);
            let labels = vec![("part", finding.subject.clone())];
            self.healthy.get_or_create(&labels).set(healthy);
        }
    }

    /// All of it in the text format of Prometheus.
    pub fn render(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

fn labels(destination: &Destination) -> Labels {
    vec![
        ("broker", destination.broker.as_str().to_owned()),
        ("destination", destination.name.to_string()),
    ]
}

/// What is counted for one destination.
#[derive(Debug)]
pub struct DestinationMetrics {
    labels: Labels,
    captured: Counter,
    released: Counter,
    cancelled: Counter,
    replaced: Counter,
    dropped: Counter,
    recovered: Counter,
    rolled_back: Counter,
    late_settles: Counter,
    missed: Family<Labels, Counter>,
    recreated: Family<Labels, Counter>,
    lateness: Histogram,
    refused: Family<Labels, Counter>,
    postponed: Family<Labels, Counter>,
    buried: Family<Labels, Counter>,
    destination: Destination,
    history: Arc<History>,
    traces: Option<Arc<Traces>>,
}

/// Counts since this process started.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Taken in.
    pub captured: u64,
    /// Published and confirmed.
    pub released: u64,
    /// Ended by a cancel.
    pub cancelled: u64,
    /// Replaced under their id.
    pub replaced: u64,
}

impl DestinationMetrics {
    /// What was counted so far.
    pub fn totals(&self) -> Totals {
        Totals {
            captured: self.captured.get(),
            released: self.released.get(),
            cancelled: self.cancelled.get(),
            replaced: self.replaced.get(),
        }
    }

    /// Where messages are traced, if they are.
    pub fn traces(&self) -> Option<&Arc<Traces>> {
        self.traces.as_ref()
    }

    /// So many captures were made durable.
    pub fn taken_in(&self, count: usize) {
        self.captured.inc_by(count as u64);
        self.history.captured(count as u64);
    }

    /// What became of one of them.
    pub fn captured(&self, entry: &Entry, outcome: Outcome) {
        match outcome {
            Outcome::Replaced(_) | Outcome::ReplacedLeased(_) => drop(self.replaced.inc()),
            Outcome::Cancelled | Outcome::CancelledLeased => {
                let Entry::Cancel { id, .. } = entry else { return };
                self.cancelled(None, Some(id.clone()), outcome == Outcome::CancelledLeased);
            }
            Outcome::Parked(_)
            | Outcome::Known
            | Outcome::Buried
            | Outcome::UnknownId
            | Outcome::NotYours => {}
        }
    }

    /// A parked message was ended.
    pub fn cancelled(&self, uid: Option<Uid>, id: Option<ProducerId>, possibly_delivered: bool) {
        self.cancelled.inc();
        self.note(uid, id, What::Cancelled { possibly_delivered });
    }

    /// These were released at this instant: who they were, and when they were due.
    pub fn released(&self, batch: Vec<(Uid, Option<ProducerId>, UnixMs)>, now: UnixMs) {
        self.released.inc_by(batch.len() as u64);
        let events = batch.into_iter().map(|(uid, id, due)| {
            let lateness_ms = now.saturating_sub(due);
            self.lateness.observe(lateness_ms as f64 / 1_000.0);
            (Some(uid), id, What::Released { due, lateness_ms })
        });
        self.history.note_all(&self.destination, events);
    }

    /// An operator changed when a message is due.
    pub fn steered(&self, uid: Uid, id: Option<ProducerId>, what: What) {
        self.note(Some(uid), id, what);
    }

    /// A replace or a cancel that was not its producer's to ask for.
    pub fn refused(&self, step: &str) {
        let mut labels = self.labels.clone();
        labels.push(("step", step.to_owned()));
        self.refused.get_or_create(&labels).inc();
    }

    /// A message that no queue wanted was dropped, as configured.
    pub fn dropped(&self) {
        self.dropped.inc();
    }

    /// A message was put off.
    pub fn postponed(&self, reason: &Reason) {
        self.postponed.get_or_create(&self.with(reason.label())).inc();
    }

    /// A message was buried.
    pub fn buried(&self, uid: &Uid, id: Option<ProducerId>, reason: &Reason) {
        self.buried.get_or_create(&self.with(reason.label())).inc();
        self.note(Some(uid.clone()), id, What::Buried { reason: reason.to_string() });
    }

    /// The store itself buried so many.
    pub fn buried_by_store(&self, label: &str, count: u64) {
        if count > 0 {
            self.buried.get_or_create(&self.with(label)).inc_by(count);
        }
    }

    /// Messages of lost holders were given back.
    pub fn recovered(&self, count: u64) {
        self.recovered.inc_by(count);
    }

    /// The store answered an older state than before.
    pub fn rolled_back(&self) {
        self.rolled_back.inc();
    }

    /// Releases whose lease had gone to another.
    pub fn late_settles(&self, count: usize) {
        self.late_settles.inc_by(count as u64);
    }

    /// Retention removed so many records before they were read.
    pub fn missed(&self, count: u64) {
        self.missed.get_or_create(&self.labels).inc_by(count);
    }

    /// A capture topic is another one under the same name.
    pub fn recreated(&self) {
        self.recreated.get_or_create(&self.labels).inc();
    }

    fn note(&self, uid: Option<Uid>, id: Option<ProducerId>, what: What) {
        self.history.note(&self.destination, uid, id, what);
    }

    fn with(&self, reason: &str) -> Labels {
        let mut labels = self.labels.clone();
        labels.push(("reason", reason.to_owned()));
        labels
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delay::When;
    use crate::message::{AmqpContent, Content, Message};
    use crate::store::Author;

    #[test]
    fn names_are_those_of_the_contract() {
        let metrics = Metrics::default();
        let destination = Destination::amqp("orders");
        let of = metrics.of(&destination);
        let message = Message {
            uid: Uid::fresh(),
            id: None,
            delay_ms: None,
            content: Content::Amqp(AmqpContent::default()),
        };
        of.released(vec![(message.uid.clone(), None, 1_000)], 1_004);
        of.buried(&message.uid, None, &Reason::new("invalid", "x"));
        let entry = Entry::Park { message, when: When::AtOnce, priority: 0, by: Author::Producer };
        of.taken_in(1);
        of.captured(&entry, Outcome::Replaced(1));
        of.postponed(&Reason::new("unroutable", "x"));
        metrics.show_census(&destination, &Census { parked: 3, ..Census::default() }, None);
        let text = metrics.render();
        let at = "broker=\"amqp\",destination=\"orders\"";
        for line in [
            format!("xdelay_captured_total{{{at}}} 1"),
            format!("xdelay_replaced_total{{{at}}} 1"),
            format!("xdelay_cancelled_total{{{at}}} 0"),
            format!("xdelay_released_total{{{at}}} 1"),
            format!("xdelay_postponed_total{{{at},reason=\"unroutable\"}} 1"),
            format!("xdelay_buried_total{{{at},reason=\"invalid\"}} 1"),
            format!("xdelay_lateness_seconds_bucket{{le=\"0.005\",{at}}} 1"),
            format!("xdelay_parked{{{at}}} 3"),
            format!("xdelay_leased{{{at}}} 0"),
            format!("xdelay_dead{{{at}}} 0"),
            format!("xdelay_overdue{{{at}}} 0"),
            format!("xdelay_due_in_seconds{{{at},le=\"+Inf\"}} 3"),
        ] {
            assert!(text.contains(&line), "{line}\n{text}");
        }
    }
}
