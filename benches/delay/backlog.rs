//! What many parked messages cost: at rest, beside traffic, and at a start.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::clock::{now_us, seconds};
use crate::figure::{count, span};
use crate::fleet::{Fleet, Home};
use crate::job::{Delay, Outcome};
use crate::machine;
use crate::options::{Options, Scenario};
use crate::report::{Backlog, Idle, Series, Start};
use crate::scenarios::{BODY_BYTES, say, tell};
use crate::side::{Setup, Side, Store};
use crate::stage::{Stage, Traffic};
use crate::steering;

/// How far away the backlog of parked messages is due: never, as far as a run is concerned.
const FAR_MS: u64 = 24 * 3_600_000;
/// After parking, until xdelay and the store have come to rest.
const REST: Duration = Duration::from_secs(2);
/// What falls due while xdelay is stopped, and when.
const DUE_AT_START: u64 = 100;
const DUE_AT_START_MS: u64 = 5_000;

const SCENARIOS: [Scenario; 4] =
    [Scenario::Backlog, Scenario::Idle, Scenario::Start, Scenario::Steering];

/// Whether anything here is to be measured.
pub(crate) fn is_wanted(options: &Options) -> bool {
    SCENARIOS.iter().any(|scenario| options.wants(*scenario))
}

/// Parks the backlog once, and measures beside it whatever was asked for.
pub(crate) fn measure(stage: &Stage<'_>, setup: Setup) -> anyhow::Result<Backlog> {
    let (options, messages) = (stage.options, stage.options.backlog);
    stage.empty()?;
    let home = Home::new()?;
    let mut fleet = Fleet::start(options, setup, &home)?;
    say(&format!("parking {} messages", count(messages)));
    let before = home.bytes(setup.store)?;
    let delay = Delay::Together(FAR_MS);
    let traffic = Traffic { messages, body_bytes: BODY_BYTES, rate: None, delay };
    let mut job = stage.job(Side::Xdelay(setup), Some(&fleet), traffic)?;
    job.consume = false;
    let (parking, parked_us) = stage.load_and_watch(&job, &fleet)?;
    let store_bytes = home.bytes(setup.store)?.saturating_sub(before);
    let mut backlog = Backlog {
        setup,
        messages,
        park_seconds: seconds(parking.first_publish_us, parked_us),
        store_bytes,
        idle: None,
        rates: Vec::new(),
        steering: None,
        starts: Vec::new(),
        peak_memory: None,
    };
    if options.wants(Scenario::Idle) {
        backlog.idle = Some(idle(&fleet, options.idle).context("idle")?);
    }
    if options.wants(Scenario::Backlog) {
        backlog.rates = rates(stage, &fleet)?;
    }
    if options.wants(Scenario::Steering) {
        backlog.steering = Some(steering::measure(stage, &fleet).context("steering")?);
    }
    backlog.peak_memory = fleet.peak_memory();
    if options.wants(Scenario::Start) {
        for round in 1..=options.rounds {
            let start;
            (start, fleet) = restart(stage, fleet, &home).context("start")?;
            say(&format!("start {round}: first release after {}", span(start.to_first_us())));
            backlog.starts.push(start);
        }
        backlog.peak_memory = backlog.peak_memory.max(fleet.peak_memory());
    }
    fleet.stop()?;
    Ok(backlog)
}

/// Processor time while nothing is to be done.
fn idle(fleet: &Fleet, for_seconds: u64) -> anyhow::Result<Idle> {
    sleep(REST);
    let look = || -> anyhow::Result<(Instant, f64, f64)> {
        let redis = match fleet.setup().store {
            Store::Redis => machine::redis_processor()?,
            Store::Embedded => 0.0,
        };
        Ok((Instant::now(), fleet.processor()?, redis))
    };
    say(&format!("idle for {for_seconds} s"));
    let (began, xdelay, redis) = look()?;
    sleep(Duration::from_secs(for_seconds));
    let (ended, xdelay_after, redis_after) = look()?;
    Ok(Idle {
        seconds: (ended - began).as_secs_f64(),
        xdelay_seconds: xdelay_after - xdelay,
        redis_seconds: redis_after - redis,
        memory: fleet.memory().context("the memory of xdelay")?,
    })
}

fn rates(stage: &Stage<'_>, fleet: &Fleet) -> anyhow::Result<Vec<Series>> {
    let (from, to) = stage.options.delays();
    let side = Side::Xdelay(fleet.setup());
    let mut all = Vec::new();
    for &rate in &stage.options.rates {
        let messages = rate * stage.options.seconds;
        let delay = Delay::Between(from, to);
        let traffic = Traffic { messages, body_bytes: BODY_BYTES, rate: Some(rate), delay };
        let mut beside = Series::new(side, Some(rate));
        for round in 1..=stage.options.rounds {
            let mut outcome = stage.load(&stage.job(side, Some(fleet), traffic)?)?;
            outcome.peak_memory = fleet.peak_memory();
            let what = format!("{}/s beside the backlog, round {round}", count(rate));
            tell(&what, outcome.kept(rate), &outcome);
            beside.outcomes.push(outcome);
        }
        all.push(beside);
    }
    Ok(all)
}

/// Stops xdelay, lets some messages fall due, and starts it anew.
fn restart(stage: &Stage<'_>, fleet: Fleet, home: &Home) -> anyhow::Result<(Start, Fleet)> {
    let setup = fleet.setup();
    let delay = Delay::Together(DUE_AT_START_MS);
    let traffic = Traffic { messages: DUE_AT_START, body_bytes: BODY_BYTES, rate: None, delay };
    let job = stage.job(Side::Xdelay(setup), Some(&fleet), traffic)?;
    let earliest_due_us = now_us() + DUE_AT_START_MS * 1_000;
    let (mut load, parked_us) = stage.load_until_parked(&job, &fleet)?;
    fleet.stop()?;
    ensure!(now_us() < earliest_due_us, "xdelay took too long to stop: messages fell due before");
    // They were published before they were parked, so that by then all are due.
    let latest_due_us = parked_us + DUE_AT_START_MS * 1_000;
    sleep(Duration::from_micros(latest_due_us.saturating_sub(now_us())));
    let fleet = Fleet::start(stage.options, setup, home)?;
    let outcome: Outcome = load.answer()?;
    Ok((Start { started_us: fleet.started_us, outcome }, fleet))
}
