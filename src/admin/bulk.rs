//! One step with many messages, in bounded portions.
//!
//! A request works for a bounded number of messages and answers a cursor; whoever wants more asks
//! again with it. So no request takes for ever, and one that is cut off has done what it has done.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::State as Extract;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::State;
use super::audit::Caller;
use super::extract::{Json, Path};
use super::filter::{EXAMINED_MAX, Filter};
use super::problem::{AnyProblem, Problem};
use super::steer::{Why, take_note, uncertain, word};
use super::time::{Due, instant, millis};
use super::words::{Instant, StepWord};
use crate::delay::When;
use crate::message::Destination;
use crate::store::{Seen, Step};

/// Messages of one request when nobody says how many, and at most.
const PORTION: usize = 1_000;

/// Many at once.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[schema(example = json!({"filter": {"destination": "orders", "id": "order-"}, "dry_run": true}))]
pub(super) struct Bulk {
    /// Which messages; at least one of its parts, unless `all` is true.
    filter: Filter,
    /// Really all there are.
    all: bool,
    /// Count only.
    dry_run: bool,
    /// For reschedule and revive: in so many milliseconds from now.
    delay_ms: Option<u64>,
    /// For reschedule and revive: at this instant, in Unix milliseconds or RFC 3339.
    #[schema(value_type = Option<Instant>, inline)]
    deliver_at: Option<serde_json::Value>,
    /// For bury: why.
    reason: Option<String>,
    /// Go on where an earlier request ended.
    #[schema(pattern = "^([0-9a-f]{2})+$")]
    cursor: Option<String>,
    /// When the first request of this work was made, as it answered: what the work itself has moved
    /// since is left alone.
    #[serde(deserialize_with = "millis")]
    since: Option<u64>,
    /// Most messages of this request, 1 to 1000.
    #[schema(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// How far it got.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"matched": 2, "results": {"cancelled": 2}, "due": null, "cursor": null,
    "since": 1_795_276_800_000_u64}))]
pub(super) struct BulkDone {
    /// Messages that matched in this portion.
    matched: usize,
    /// What came of the step, in words and how often; empty after a dry run.
    results: BTreeMap<&'static str, u64>,
    /// The due that was given: send it as `deliver_at` with the cursor, so that all get the same.
    due: Option<u64>,
    /// To go on with; null at the end.
    cursor: Option<String>,
    /// To be sent with the cursor.
    since: u64,
}

/// Cancel, release, reschedule, revive or bury all that match
#[utoipa::path(post, path = "/v1/bulk/{step}", tag = "messages",
    params(("step" = inline(StepWord), Path, description = "cancel, release, reschedule, revive or bury")),
    request_body = Bulk, responses((status = 200, body = BulkDone), AnyProblem))]
pub(super) async fn bulk(
    Extract(state): Extract<Arc<State>>,
    Extension(caller): Extension<Caller>,
    Path(step): Path<String>,
    Json(mut bulk): Json<Bulk>,
) -> Result<axum::Json<BulkDone>, Problem> {
    if bulk.filter.is_empty() && !bulk.all {
        return Err(Problem::invalid("the filter is empty; add \"all\": true to mean everything"));
    }
    if step == "revive" {
        bulk.filter.state.get_or_insert_with(|| "dead".to_owned());
    }
    let limit = bulk.limit.unwrap_or(PORTION);
    if !(1..=PORTION).contains(&limit) {
        return Err(Problem::invalid("limit is a number from 1 to 1000"));
    }
    let since = bulk.since.unwrap_or_else(|| state.clock.now());
    let (step, due) = bulk.step(&state, &step)?;
    let start = bulk.filter.start(bulk.cursor.as_deref())?;
    let page = bulk.filter.page(&state, start, limit.min(EXAMINED_MAX)).await?;
    let matches: Vec<_> =
        page.matches.into_iter().filter(|(_, it)| !is_done(&step, it, since, due)).collect();
    let matched = matches.len();
    let mut results = BTreeMap::new();
    if !bulk.dry_run {
        for (destination, some) in by_destination(matches) {
            apply(&state, &caller, &destination, &step, &some, &mut results).await?;
        }
    }
    let cursor = page.next.map(|place| place.to_text());
    Ok(axum::Json(BulkDone { matched, results, due, cursor, since }))
}

/// What this work has moved already is met again further on: a new due, a burial after a revival.
fn is_done(step: &Step, seen: &Seen, since: u64, due: Option<u64>) -> bool {
    match step {
        // What is due goes out by itself, and keeps its order.
        Step::Reschedule(When::AtOnce) => seen.due <= since,
        Step::Reschedule(_) => Some(seen.due) == due,
        Step::Revive(_) => seen.at > since,
        Step::Cancel | Step::Bury(_) => false,
    }
}

impl Bulk {
    fn step(&self, state: &State, name: &str) -> Result<(Step, Option<u64>), Problem> {
        let (delay_ms, deliver_at) = (self.delay_ms, self.deliver_at.clone());
        let now = state.clock.now();
        let timed = matches!(name, "reschedule" | "revive");
        if !timed && (delay_ms.is_some() || deliver_at.is_some()) {
            return Err(Problem::invalid("delay_ms and deliver_at are for reschedule and revive"));
        }
        if name != "bury" && self.reason.is_some() {
            return Err(Problem::invalid("a reason is for bury"));
        }
        Ok(match name {
            "cancel" => (Step::Cancel, None),
            "release" => (Step::Reschedule(When::AtOnce), None),
            "bury" => (Why { reason: self.reason.clone() }.step(), None),
            "reschedule" => {
                let due = instant(Due { delay_ms, deliver_at }.read(state)?, now);
                (Step::Reschedule(When::At(due)), Some(due))
            }
            "revive" => {
                let due = Due { delay_ms, deliver_at }.read_if_given(state)?;
                let due = due.map(|when| instant(when, now));
                (Step::Revive(due.map(When::At)), due)
            }
            _ => {
                return Err(Problem::unknown(
                    "the steps are cancel, release, reschedule, revive and bury",
                ));
            }
        })
    }
}

fn by_destination(matches: Vec<(Destination, Seen)>) -> BTreeMap<Destination, Vec<Seen>> {
    let mut sorted: BTreeMap<Destination, Vec<Seen>> = BTreeMap::new();
    for (destination, seen) in matches {
        sorted.entry(destination).or_default().push(seen);
    }
    sorted
}

async fn apply(
    state: &State,
    caller: &Caller,
    destination: &Destination,
    step: &Step,
    whom: &[Seen],
    results: &mut BTreeMap<&'static str, u64>,
) -> Result<(), Problem> {
    let handles: Vec<_> = whom.iter().map(Seen::handle).collect();
    let steered = state.store.steer(destination, step, &handles).await;
    let steered = steered.map_err(|error| uncertain(caller, destination, step, error))?;
    for (seen, steered) in whom.iter().zip(steered) {
        *results.entry(word(steered)).or_default() += 1;
        take_note(state, caller, destination, (&seen.uid, seen.id()), step, steered);
    }
    Ok(())
}
