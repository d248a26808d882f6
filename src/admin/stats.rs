//! `GET /v1/stats` and `GET /v1/backlog`: all that there is, at a cost that does not grow with it.

use std::sync::Arc;

use axum::Json;
use axum::extract::State as Extract;
use futures_util::stream::{StreamExt, TryStreamExt, iter};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::State;
use super::extract::Query;
use super::health::PartView;
use super::lookup;
use super::problem::{AnyProblem, Problem};
use super::time::{MILLIS_MAX, millis};
use super::words::BrokerWord;
use crate::clock::UnixMs;
use crate::history::Minute;
use crate::message::Destination;
use crate::metrics::Totals;
use crate::store::Census;

/// Destinations that are counted at a time.
const AT_ONCE: usize = 8;
/// Slots of a backlog, at most.
const SLOTS_MAX: u64 = 500;

/// Everything at a glance.
#[derive(Serialize, ToSchema)]
pub(super) struct Stats {
    /// The store's clock, in Unix milliseconds.
    now: UnixMs,
    /// xdelay's version.
    version: &'static str,
    /// Whether nothing is bad.
    ready: bool,
    /// Whether this caller may change anything.
    may_write: bool,
    /// By destination.
    destinations: Vec<DestinationView>,
    /// The last hour of this replica, by the minute.
    minutes: Vec<MinuteView>,
    /// Every part with its state.
    parts: Vec<PartView>,
}

/// One destination.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"destination": "orders", "broker": "amqp", "parked": 1200, "leased": 3,
    "dead": 0, "overdue": 0, "paused": false, "configured": true,
    "next_due": 1_795_276_800_000_u64, "captured": 5400, "released": 4197, "cancelled": 0,
    "replaced": 0}))]
struct DestinationView {
    destination: String,
    /// `amqp` or `kafka`.
    broker: &'static str,
    /// Waiting for their due, the overdue included.
    parked: u64,
    /// Being released.
    leased: u64,
    /// Kept with a reason.
    dead: u64,
    /// Parked although they may be tried.
    overdue: u64,
    /// Held back by an operator.
    paused: bool,
    /// Still in the configuration of this replica.
    configured: bool,
    /// When the first parked message may be tried, in Unix milliseconds; in the past, since when it
    /// could have gone out.
    next_due: Option<UnixMs>,
    /// Since this replica started.
    captured: u64,
    /// Since this replica started.
    released: u64,
    /// Since this replica started.
    cancelled: u64,
    /// Since this replica started.
    replaced: u64,
}

/// One minute of this replica.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"start": 1_795_276_800_000_u64, "captured": 300, "released": 300,
    "cancelled": 0, "buried": 0, "lateness_ms_p50": 3, "lateness_ms_p99": 9,
    "lateness_ms_max": 12}))]
struct MinuteView {
    /// When it began, in Unix milliseconds.
    start: UnixMs,
    captured: u64,
    released: u64,
    cancelled: u64,
    buried: u64,
    /// Half of its releases were at most this late, in milliseconds.
    lateness_ms_p50: Option<u64>,
    lateness_ms_p99: Option<u64>,
    lateness_ms_max: Option<u64>,
}

/// Counts by destination, rates and lateness of the last hour, health
#[utoipa::path(get, path = "/v1/stats", tag = "overview",
    responses((status = 200, body = Stats), AnyProblem))]
pub(super) async fn stats(
    Extract(state): Extract<Arc<State>>,
    role: axum::Extension<super::auth::Role>,
) -> Result<Json<Stats>, Problem> {
    let all = state.destinations.all();
    let views = all.into_iter().map(|it| view(Arc::clone(&state), it));
    let destinations = iter(views).buffered(AT_ONCE).try_collect().await?;
    Ok(Json(Stats {
        now: state.clock.now(),
        version: env!("CARGO_PKG_VERSION"),
        ready: state.health.is_ready(),
        may_write: *role == super::auth::Role::Write,
        destinations,
        minutes: state.history().minutes().iter().map(minute).collect(),
        parts: state.health.findings().into_iter().map(PartView::from).collect(),
    }))
}

async fn view(state: Arc<State>, destination: Destination) -> Result<DestinationView, Problem> {
    let Census { parked, leased, dead, overdue, paused, next, .. } =
        state.store.census(&destination).await?;
    let Totals { captured, released, cancelled, replaced } =
        state.metrics.of(&destination).totals();
    Ok(DestinationView {
        destination: destination.name.to_string(),
        broker: destination.broker.as_str(),
        parked,
        leased,
        dead,
        overdue,
        paused,
        configured: state.is_served(&destination),
        next_due: next,
        captured,
        released,
        cancelled,
        replaced,
    })
}

fn minute(minute: &Minute) -> MinuteView {
    MinuteView {
        start: minute.start,
        captured: minute.captured,
        released: minute.released,
        cancelled: minute.cancelled,
        buried: minute.buried,
        lateness_ms_p50: minute.lateness_ms(0.5),
        lateness_ms_p99: minute.lateness_ms(0.99),
        lateness_ms_max: minute.lateness_ms(1.0),
    }
}

/// Which part of the future.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Span {
    /// The exchange or topic; all when not given.
    destination: Option<String>,
    /// `amqp` or `kafka`, where both have a destination of that name.
    #[param(value_type = Option<BrokerWord>, inline)]
    broker: Option<String>,
    /// Where the first slot begins, in Unix milliseconds; now when not given.
    #[serde(default, deserialize_with = "millis")]
    from: Option<UnixMs>,
    /// How long a slot is, in milliseconds.
    #[param(minimum = 1)]
    slot_ms: u64,
    /// How many slots, 1 to 500.
    #[param(minimum = 1, maximum = 500)]
    slots: u64,
}

/// The backlog by time to due.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"from": 1_795_276_800_000_u64, "slot_ms": 1_000, "before": 0,
    "counts": [12, 0, 3], "after": 900}))]
pub(super) struct Backlog {
    /// Where the first slot begins.
    from: UnixMs,
    slot_ms: u64,
    /// Parked messages due before the first slot.
    before: u64,
    /// Parked messages due in each slot.
    counts: Vec<u64>,
    /// Parked messages due after the last slot.
    after: u64,
}

/// Count what is parked by when it is due
#[utoipa::path(get, path = "/v1/backlog", tag = "overview", params(Span),
    responses((status = 200, body = Backlog), AnyProblem))]
pub(super) async fn backlog(
    Extract(state): Extract<Arc<State>>,
    Query(span): Query<Span>,
) -> Result<Json<Backlog>, Problem> {
    if !(1..=SLOTS_MAX).contains(&span.slots) || !(1..=MILLIS_MAX).contains(&span.slot_ms) {
        return Err(Problem::invalid("slots is a number from 1 to 500, slot_ms at least 1"));
    }
    let from = span.from.unwrap_or_else(|| state.clock.now());
    let edge = |slot: u64| {
        let length = span.slot_ms.saturating_mul(slot);
        // What Redis and JavaScript can still tell apart.
        from.saturating_add(length).clamp(1, 1 << 53) - 1
    };
    let edges: Vec<UnixMs> = (0..=span.slots).map(edge).collect();
    let places = lookup::destinations(&state, span.destination.as_deref(), span.broker.as_deref())?;
    let (mut until, mut parked) = (vec![0; edges.len()], 0);
    for destination in &places {
        for (sum, count) in until.iter_mut().zip(state.store.backlog(destination, &edges).await?) {
            *sum += count;
        }
        parked += state.store.census(destination).await?.parked;
    }
    let counts = until.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
    let (before, by_the_end) = (until[0], until[until.len() - 1]);
    let after = parked.saturating_sub(by_the_end);
    Ok(Json(Backlog { from, slot_ms: span.slot_ms, before, counts, after }))
}
