//! What is run in which order.

use anyhow::Context;

use crate::amqp::idlers;
use crate::backlog;
use crate::clock::seconds;
use crate::figure::{bytes, count, span};
use crate::fleet::{Fleet, Home};
use crate::job::{Delay, Outcome};
use crate::machine::Machine;
use crate::options::{Options, Scenario};
use crate::report::{Burst, Connections, Contest, Rates, Report, Series};
use crate::side::{Setup, Side, Through};
use crate::stage::{Stage, Traffic};

/// A burst is due this long after its first publish: room to take it in at 6 000 a second.
const BURST_LEAD_MS: u64 = 3_000;
const BURST_TAKEN_PER_MS: u64 = 6;
/// A round carries no more bytes of bodies than this, however many messages were asked for.
const ROUND_BYTES: usize = 512 << 20;
/// The body of every scenario that is not about bodies.
pub(crate) const BODY_BYTES: usize = 100;
/// Connected before memory is looked at, so that what the first one needs is not counted.
const FIRST_CONNECTIONS: u32 = 20;

/// Measures everything that was asked for.
pub(crate) fn run(options: &Options) -> anyhow::Result<Report> {
    let mut report = Report::new(options.clone(), Machine::look(options)?);
    report.warn();
    let stage = Stage::set(options)?;
    let xdelays = || options.setups().map(Side::Xdelay);
    if options.wants(Scenario::FlatOut) {
        let sides: Vec<Side> = [Side::Alone, Side::Relay].into_iter().chain(xdelays()).collect();
        for &body_bytes in &options.body {
            let contest =
                contest(&stage, "flat out", Side::Relay, &sides, body_bytes, Delay::Each(1));
            report.contests.push(contest.context("flat out")?);
        }
    }
    if options.wants(Scenario::AtOnce) {
        let captured = xdelays().filter(|side| !is_proxied(*side));
        let sides: Vec<Side> = [Side::Relay].into_iter().chain(captured).collect();
        let contest = contest(&stage, "at once", Side::Relay, &sides, BODY_BYTES, Delay::Each(0));
        report.contests.push(contest.context("at once")?);
    }
    if options.wants(Scenario::Passing) {
        let sides = passing_sides();
        let contest = contest(&stage, "passing", Side::Alone, &sides, BODY_BYTES, Delay::Unasked);
        report.contests.push(contest.context("passing")?);
        let rates = rates(&stage, "passing", &[Side::Alone, proxied()], BODY_BYTES, Delay::Unasked);
        report.rates.push(rates.context("passing, at a rate")?);
    }
    if options.wants(Scenario::Rate) {
        let (from, to) = options.delays();
        let sides: Vec<Side> = [Side::Relay].into_iter().chain(xdelays()).collect();
        for &body_bytes in &options.body {
            let rates = rates(&stage, "rate", &sides, body_bytes, Delay::Between(from, to));
            report.rates.push(rates.context("at a rate")?);
        }
    }
    for setup in options.setups() {
        if options.wants(Scenario::Burst) {
            report.bursts.push(burst(&stage, setup).context("burst")?);
        }
        if backlog::is_wanted(options) {
            report.backlogs.push(backlog::measure(&stage, setup).context("backlog")?);
        }
    }
    if options.wants(Scenario::Connections) {
        report.connections = Some(connections(&stage).context("connections")?);
    }
    Ok(report)
}

/// Xdelay's port, in whatever way messages are parked.
fn proxied() -> Side {
    Side::Xdelay(Setup { through: Through::Proxy, ..Setup::default() })
}

/// What is not delayed flows past xdelay inside the broker, or through its port.
fn passing_sides() -> [Side; 3] {
    [Side::Alone, Side::Xdelay(Setup::default()), proxied()]
}

fn is_proxied(side: Side) -> bool {
    matches!(side, Side::Xdelay(setup) if setup.through == Through::Proxy)
}

/// All sides by turns, as fast as each goes, so that a machine that gets slower or faster does so
/// for all; one short round of each before, since brokers and page caches are slow at first.
fn contest(
    stage: &Stage<'_>,
    name: &'static str,
    yardstick: Side,
    sides: &[Side],
    body_bytes: usize,
    delay: Delay,
) -> anyhow::Result<Contest> {
    let messages = stage.options.messages.min((ROUND_BYTES / body_bytes.max(1)) as u64);
    let traffic = Traffic { messages, body_bytes, rate: None, delay };
    let mut series: Vec<Series> = sides.iter().map(|&side| Series::new(side, None)).collect();
    say(&format!("{name}, {}: a short round of each, not counted", bytes(body_bytes as u64)));
    for &side in sides {
        stage.round(side, Traffic { messages: messages.div_ceil(5), ..traffic })?;
    }
    for round in 1..=stage.options.rounds {
        for of in &mut series {
            let outcome = stage.round(of.side, traffic)?;
            let side = of.side.name(stage.options.broker);
            tell(&format!("{name}, round {round}, {side}"), outcome.rate(), &outcome);
            of.outcomes.push(outcome);
        }
    }
    Ok(Contest { name, yardstick, body_bytes, delay, series })
}

/// All sides by turns at each rate. What the relay, or the broker alone, shows there is the part of
/// the lateness that no bridge could avoid.
fn rates(
    stage: &Stage<'_>,
    name: &'static str,
    sides: &[Side],
    body_bytes: usize,
    delay: Delay,
) -> anyhow::Result<Rates> {
    let mut all = Vec::new();
    for &rate in &stage.options.rates {
        let messages = rate * stage.options.seconds;
        let traffic = Traffic { messages, body_bytes, rate: Some(rate), delay };
        let mut series: Vec<Series> =
            sides.iter().map(|&side| Series::new(side, Some(rate))).collect();
        for round in 1..=stage.options.rounds {
            for of in &mut series {
                let outcome = stage.round(of.side, traffic)?;
                let side = of.side.name(stage.options.broker);
                let what = format!("{name}, {}/s, round {round}, {side}", count(rate));
                tell(&what, outcome.kept(rate), &outcome);
                of.outcomes.push(outcome);
            }
        }
        all.extend(series);
    }
    Ok(Rates { name, body_bytes, delay, series: all })
}

fn burst(stage: &Stage<'_>, setup: Setup) -> anyhow::Result<Burst> {
    let messages = stage.options.burst;
    let lead = BURST_LEAD_MS + messages / BURST_TAKEN_PER_MS;
    stage.empty()?;
    let home = Home::new()?;
    let fleet = Fleet::start(stage.options, setup, &home)?;
    let delay = Delay::Together(lead);
    let traffic = Traffic { messages, body_bytes: BODY_BYTES, rate: None, delay };
    let job = stage.job(Side::Xdelay(setup), Some(&fleet), traffic)?;
    let (mut outcome, parked_us) = stage.load_and_watch(&job, &fleet)?;
    tell("burst, accepted", outcome.accepted(), &outcome);
    let due_us = (outcome.first_publish_us / 1_000 + lead) * 1_000;
    outcome.peak_memory = fleet.peak_memory();
    fleet.stop()?;
    Ok(Burst { setup, outcome, due_us, parked_us })
}

/// How much the proxy grows by connections that do nothing.
fn connections(stage: &Stage<'_>) -> anyhow::Result<Connections> {
    let count = stage.options.connections;
    let Side::Xdelay(setup) = proxied() else { unreachable!("it is xdelay's") };
    let home = Home::new()?;
    let fleet = Fleet::start(stage.options, setup, &home)?;
    let server = stage.proxied(&fleet)?;
    let first = idlers::start(&server, FIRST_CONNECTIONS)?;
    let memory = || fleet.memory().context("the memory of xdelay");
    let (before, began) = (memory()?, crate::clock::now_us());
    let idlers = idlers::start(&server, count)?;
    let connect_seconds = seconds(began, crate::clock::now_us());
    let connections = Connections { count, before, after: memory()?, connect_seconds };
    say(&format!("{count} idle connections: {} each", bytes(connections.each())));
    drop((idlers, first));
    fleet.stop()?;
    Ok(connections)
}

pub(crate) fn tell(what: &str, rate: u64, outcome: &Outcome) {
    let Some(arrived) = &outcome.arrived else { return };
    let (rate, late) = (count(rate), arrived.overshoot);
    let (p50, p99, max) = (span(late.p50), span(late.p99), span(late.max));
    say(&format!("{what}: {rate}/s, overshoot {p50} / {p99} / {max}, {} lost", arrived.lost));
}

/// Progress goes where it does not mix with the tables.
pub(crate) fn say(what: &str) {
    eprintln!("{what}");
}
