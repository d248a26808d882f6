//! What is run in which order.

use anyhow::Context;

use crate::clock::seconds;
use crate::job::{Delay, Outcome, Path};
use crate::machine::{self, Machine};
use crate::options::{Options, Scenario};
use crate::report::{Backlog, Burst, FlatOut, Rate, Report};
use crate::sidecar::Sidecar;
use crate::stage::Stage;
use crate::table::{count, span};

/// A burst is due this long after its first publish: room to take it in at 6 000 a second.
const BURST_LEAD_MS: u64 = 3_000;
const BURST_TAKEN_PER_MS: u64 = 6;
/// How far away the backlog of parked messages is due: never, as far as a run is concerned.
const FAR_MS: u64 = 24 * 3_600_000;

/// Measures everything that was asked for.
pub(crate) fn run(options: &Options) -> anyhow::Result<Report> {
    let mut report = Report::new(options.clone(), Machine::look(options)?);
    report.warn();
    let stage = Stage::set(options)?;
    if options.wants(Scenario::FlatOut) {
        report.flat_out = Some(flat_out(&stage).context("flat out")?);
    }
    if options.wants(Scenario::Rate) {
        report.rates = rates(&stage).context("at a rate")?;
    }
    if options.wants(Scenario::Burst) {
        report.burst = Some(burst(&stage).context("burst")?);
    }
    if options.wants(Scenario::Backlog) {
        report.backlog = Some(backlog(&stage).context("backlog")?);
    }
    Ok(report)
}

/// xdelay and the relay by turns, so that a machine that gets slower or faster does so for both;
/// one short round of each before, since brokers and page caches are slow at first.
fn flat_out(stage: &Stage<'_>) -> anyhow::Result<FlatOut> {
    let (rounds, messages) = (stage.options.rounds, stage.options.messages);
    let one = |path, messages| stage.round(path, messages, None, Delay::Each(1));
    let mut flat_out = FlatOut::default();
    say("flat out: a short round of each, not counted");
    for path in [Path::Alone, Path::Xdelay, Path::Relay] {
        one(path, messages / 5)?;
    }
    for round in 1..=rounds {
        for path in [Path::Xdelay, Path::Relay] {
            let outcome = one(path, messages)?;
            tell(&format!("flat out {round}/{rounds}, {path:?}"), outcome.rate(), &outcome);
            flat_out.of(path).push(outcome);
        }
    }
    for round in 1..=rounds.div_ceil(2) {
        let outcome = one(Path::Alone, messages)?;
        tell(&format!("flat out {round}, the broker alone"), outcome.rate(), &outcome);
        flat_out.of(Path::Alone).push(outcome);
    }
    Ok(flat_out)
}

/// The relay at the same rates shows which part of the lateness no bridge could avoid.
fn rates(stage: &Stage<'_>) -> anyhow::Result<Vec<Rate>> {
    let (from, to) = stage.options.delays();
    let mut rates = Vec::new();
    for &rate in &stage.options.rates {
        let mut sides = [Path::Relay, Path::Xdelay].map(|path| Rate::new(path, rate));
        for round in 1..=stage.options.rounds {
            for side in &mut sides {
                let messages = rate * stage.options.seconds;
                let delay = Delay::Between(from, to);
                let outcome = stage.round(side.path, messages, Some(rate), delay)?;
                let what = format!("{}/s, round {round}, {:?}", count(rate), side.path);
                tell(&what, outcome.kept(rate), &outcome);
                side.outcomes.push(outcome);
            }
        }
        rates.extend(sides);
    }
    Ok(rates)
}

fn burst(stage: &Stage<'_>) -> anyhow::Result<Burst> {
    let messages = stage.options.burst;
    let lead = BURST_LEAD_MS + messages / BURST_TAKEN_PER_MS;
    stage.empty()?;
    let sidecar = Sidecar::start(stage.options)?;
    let job = stage.job(Path::Xdelay, messages, None, Delay::Together(lead));
    let (outcome, parked_us) = stage.load_and_watch(&job, &sidecar)?;
    tell("burst, accepted", outcome.accepted(), &outcome);
    let due_us = (outcome.first_publish_us / 1_000 + lead) * 1_000;
    let peak_memory = sidecar.peak_memory();
    sidecar.stop()?;
    Ok(Burst { outcome, due_us, parked_us, peak_memory })
}

/// One xdelay parks the backlog and then serves the rates beside it.
fn backlog(stage: &Stage<'_>) -> anyhow::Result<Backlog> {
    let messages = stage.options.backlog;
    let (from, to) = stage.options.delays();
    stage.empty()?;
    let sidecar = Sidecar::start(stage.options)?;
    say(&format!("parking {} messages", count(messages)));
    let before = machine::redis_memory()?;
    let mut job = stage.job(Path::Xdelay, messages, None, Delay::Together(FAR_MS));
    job.consume = false;
    let (parking, parked_us) = stage.load_and_watch(&job, &sidecar)?;
    let redis_bytes = machine::redis_memory()?.saturating_sub(before);
    let mut rates = Vec::new();
    for &rate in &stage.options.rates {
        let messages = rate * stage.options.seconds;
        let delay = Delay::Between(from, to);
        let mut beside = Rate::new(Path::Xdelay, rate);
        for round in 1..=stage.options.rounds {
            let outcome = stage.load(&stage.job(Path::Xdelay, messages, Some(rate), delay))?;
            let what = format!("{}/s beside the backlog, round {round}", count(rate));
            tell(&what, outcome.kept(rate), &outcome);
            beside.outcomes.push(outcome);
        }
        rates.push(beside);
    }
    let peak_memory = sidecar.peak_memory();
    sidecar.stop()?;
    let park_seconds = seconds(parking.first_publish_us, parked_us);
    Ok(Backlog { messages, park_seconds, redis_bytes, peak_memory, rates })
}

fn tell(what: &str, rate: u64, outcome: &Outcome) {
    let Some(arrived) = &outcome.arrived else { return };
    let (rate, late) = (count(rate), arrived.overshoot);
    let (p50, p99, max) = (span(late.p50), span(late.p99), span(late.max));
    say(&format!("{what}: {rate}/s, overshoot {p50} / {p99} / {max}, {} lost", arrived.lost));
}

/// Progress goes where it does not mix with the tables.
fn say(what: &str) {
    eprintln!("{what}");
}
