//! The result of a run, as Markdown.

use std::fmt::Write;

use crate::clock::seconds;
use crate::figure::{bytes, count, median, per_second, span};
use crate::job::{Arrivals, Delay, Outcome, Quantiles};
use crate::machine::Machine;
use crate::options::Options;
use crate::report::{Backlog, Burst, Connections, Contest, Rates, Report, Series, Start};
use crate::side::{Broker, Setup, Side, Store};
use crate::steering::Steering;

/// All tables of a run.
pub(crate) fn tables(report: &Report) -> String {
    let options = &report.options;
    let mut parts = vec![machine(&report.machine, options, &report.date)];
    if options.quick {
        parts.push("**A smoke run: too short for its figures to mean anything.**".to_owned());
    }
    if !options.set.is_empty() {
        parts.push(format!("Not the defaults: {}.", options.set.join(", ")));
    }
    parts.extend(report.contests.iter().map(|contest| contest_table(contest, options.broker)));
    parts.extend(report.rates.iter().map(|rates| {
        let title = rates_title(rates, options.seconds);
        rate_table(&title, &rates.series, options.broker) + &added(rates, options.broker)
    }));
    if !report.bursts.is_empty() {
        parts.push(burst_table(&report.bursts, options.broker));
    }
    parts.extend(report.backlogs.iter().map(|backlog| backlog_table(backlog, options)));
    parts.extend(report.connections.as_ref().map(connections));
    parts.iter().map(|part| part.trim()).collect::<Vec<_>>().join("\n\n")
}

fn machine(machine: &Machine, options: &Options, date: &str) -> String {
    let Machine { cores, cpu, kernel, load_before, xdelay, broker, redis, rustc, .. } = machine;
    let (memory, kind) = (bytes(machine.memory_bytes), options.broker.name());
    format!(
        "Measured {date} on {cores} cores ({cpu}), {memory} of memory, Linux {kernel}, load average \
         {load_before} before. xdelay {xdelay}, {kind} {broker}, Redis {redis} (append-only \
         file, `appendfsync always`), rustc {rustc}."
    )
}

fn contest_table(contest: &Contest, broker: Broker) -> String {
    let title = match contest.name {
        "passing" => "**Flat out, without a header**",
        "at once" => "**Flat out, `x-delay: 0`**",
        _ => "**Flat out, `x-delay: 1`**",
    };
    let messages = contest.series.iter().flat_map(|series| &series.outcomes).next();
    let messages = count(messages.map_or(0, |outcome| outcome.messages));
    let body = bytes(contest.body_bytes as u64);
    let share = format!("of {} (rounds)", yardstick(contest.yardstick, broker));
    let mut table = head(
        &format!("{title}, {messages} messages of {body} a round"),
        &["through", "rounds", "median (least to most)", &share, MEMORY, FAULTS],
    );
    for series in &contest.series {
        let name = match (contest.delay, series.side) {
            (Delay::Unasked, Side::Xdelay(setup)) if setup == Setup::default() => {
                "capture exchange".to_owned()
            }
            (_, side) => side.name(broker),
        };
        let rates = || series.outcomes.iter().map(Outcome::rate);
        let rate = format!(
            "{}/s ({} to {})",
            count(series.median_rate()),
            count(rates().min().unwrap_or(0)),
            count(rates().max().unwrap_or(0))
        );
        let rounds = series.outcomes.len().to_string();
        let (memory, faults) = (memory(&series.outcomes), faults(&series.outcomes));
        row(&mut table, &[&name, &rounds, &rate, &share_of(contest, series), &memory, &faults]);
    }
    table
}

fn yardstick(side: Side, broker: Broker) -> &'static str {
    match (side, broker) {
        (Side::Alone, Broker::Rabbitmq) => "RabbitMQ alone",
        (Side::Alone, Broker::Kafka) => "Kafka alone",
        _ => "the relay",
    }
}

/// With the spread over pairs of neighbouring rounds.
fn share_of(contest: &Contest, series: &Series) -> String {
    let share = contest.share(series);
    let shares = contest.shares(series);
    match (shares.first(), shares.last()) {
        (Some(least), Some(most)) if series.side != contest.yardstick && shares.len() > 1 => {
            format!("{share:.2} ({least:.2} to {most:.2})")
        }
        _ => format!("{share:.2}"),
    }
}

fn rates_title(rates: &Rates, seconds: u64) -> String {
    let body = bytes(rates.body_bytes as u64);
    let delays = match rates.delay {
        Delay::Between(from, to) => {
            format!("delays from {} to {}", span(from * 1_000), span(to * 1_000))
        }
        _ => "without a header".to_owned(),
    };
    format!("**At a rate**, {seconds} s of messages of {body}, {delays}")
}

fn rate_table(title: &str, all: &[Series], broker: Broker) -> String {
    let columns = ["through", "asked", "kept", LATENESS, OVERSHOOT, MEMORY, FAULTS];
    let mut table = head(title, &columns);
    for series in all {
        let Series { side, rate, outcomes } = series;
        let rate = rate.unwrap_or(0);
        let rounds = |of: fn(&Arrivals) -> Quantiles| {
            rounds_of(&series.arrivals().map(of).collect::<Vec<_>>())
        };
        let held = outcomes.iter().any(|outcome| outcome.held);
        let name = side.name(broker) + if held { "" } else { ", no delay" };
        let lateness = if held { rounds(|arrived| arrived.lateness) } else { "-".to_owned() };
        let kept = median(outcomes.iter().map(|outcome| outcome.kept(rate)));
        let (asked, kept) = (format!("{}/s", count(rate)), format!("{}/s", count(kept)));
        let overshoot = rounds(|arrived| arrived.overshoot);
        let (memory, faults) = (memory(outcomes), faults(outcomes));
        row(&mut table, &[&name, &asked, &kept, &lateness, &overshoot, &memory, &faults]);
    }
    table
}

/// What passes xdelay's port takes so much longer than straight to the broker.
fn added(rates: &Rates, broker: Broker) -> String {
    if rates.delay != Delay::Unasked {
        return String::new();
    }
    let median_of = |series: &Series, part: fn(&Quantiles) -> u64| {
        median(series.arrivals().map(|arrived| part(&arrived.overshoot))) as f64 / 1e3
    };
    let mut text = String::new();
    for series in rates.series.iter().filter(|series| series.side != Side::Alone) {
        let straight = |other: &&Series| other.side == Side::Alone && other.rate == series.rate;
        let Some(straight) = rates.series.iter().find(straight) else { continue };
        let more = |part| median_of(series, part) - median_of(straight, part);
        let (side, rate) = (series.side.name(broker), count(series.rate.unwrap_or(0)));
        let (p50, p99) = (more(|of| of.p50), more(|of| of.p99));
        let _ = write!(
            text,
            "\nAdded by {side} at {rate}/s: {p50:+.2} ms at p50, {p99:+.2} ms at p99."
        );
    }
    text
}

fn burst_table(bursts: &[Burst], broker: Broker) -> String {
    let columns =
        ["through", "messages", "accepted", "parked", "drained", LATENESS, MEMORY, FAULTS];
    let mut table = head("**Burst**, all due at one instant", &columns);
    for Burst { setup, outcome, due_us, parked_us } in bursts {
        let arrived = outcome.arrived.clone().unwrap_or_default();
        let drained =
            per_second(outcome.messages - arrived.lost, seconds(*due_us, arrived.last_arrival_us));
        let parked = per_second(outcome.messages, seconds(outcome.first_publish_us, *parked_us));
        let cells = [
            Side::Xdelay(*setup).name(broker),
            count(outcome.messages),
            format!("{}/s", count(outcome.accepted())),
            format!("{}/s", count(parked)),
            format!("{}/s", count(drained)),
            quantiles(arrived.lateness),
            memory(std::slice::from_ref(outcome)),
            faults(std::slice::from_ref(outcome)),
        ];
        row(&mut table, &cells.each_ref().map(String::as_str));
    }
    table
}

fn backlog_table(backlog: &Backlog, options: &Options) -> String {
    let messages = count(backlog.messages);
    let side = Side::Xdelay(backlog.setup).name(options.broker);
    let mut text = format!("**Beside {messages} parked messages**, {side}\n\n");
    if !backlog.rates.is_empty() {
        let (from, to) = options.delays();
        let delays = format!("delays from {} to {}", span(from * 1_000), span(to * 1_000));
        let title = format!("**Beside {messages} parked messages**, {side}, {delays}");
        text = rate_table(&title, &backlog.rates, options.broker) + "\n";
    }
    let each = backlog.store_bytes / backlog.messages.max(1);
    let rate = count(per_second(backlog.messages, backlog.park_seconds));
    let store = match backlog.setup.store {
        Store::Redis => "Redis holds",
        Store::Embedded => "its files hold",
    };
    let _ = write!(text, "Parked at {rate}/s; {store} {each} bytes for each.");
    if let Some(peak) = backlog.peak_memory {
        let _ = write!(text, " xdelay used {} at most.", bytes(peak));
    }
    if let Some(idle) = &backlog.idle {
        let share = |of: f64| 100.0 * of / idle.seconds.max(0.001);
        let _ = write!(
            text,
            "\n\n**Idle** beside them, {:.0} s: xdelay {:.2} % of a core, Redis {:.2} %; xdelay \
             has {} in use.",
            idle.seconds,
            share(idle.xdelay_seconds),
            share(idle.redis_seconds),
            bytes(idle.memory)
        );
    }
    if let Some(steering) = &backlog.steering {
        text += &steering_table(steering);
    }
    if !backlog.starts.is_empty() {
        let times = || backlog.starts.iter().map(Start::to_first_us);
        let _ = write!(
            text,
            "\n\n**Start** beside them, {} times: first arrival of what was due {} after the start \
             of the process ({} to {}).",
            backlog.starts.len(),
            span(median(times())),
            span(times().min().unwrap_or(0)),
            span(times().max().unwrap_or(0))
        );
    }
    text
}

fn steering_table(steering: &Steering) -> String {
    let title = "\n\n**Looking** at them";
    let mut table = head(title, &["request", "median", "longest", "may take"]);
    for look in &steering.looks {
        let times = [look.median(), look.longest(), look.limit_us].map(span);
        row(&mut table, &[look.name, &times[0], &times[1], &times[2]]);
    }
    for (while_, p50, p99) in steering.lateness() {
        let _ =
            write!(table, "\nLateness while {while_}: {} / {} (p50 / p99).", span(p50), span(p99));
    }
    table
}

fn connections(connections: &Connections) -> String {
    let Connections { count: number, before, after, connect_seconds } = connections;
    format!(
        "**Connections**: {} through the proxy that do nothing: {} each ({} before, {} with them); \
         connected in {connect_seconds:.1} s.",
        count(u64::from(*number)),
        bytes(connections.each()),
        bytes(*before),
        bytes(*after)
    )
}

const LATENESS: &str = "lateness p50 / p99 (rounds) / max";
const OVERSHOOT: &str = "overshoot p50 / p99 (rounds) / max";
const MEMORY: &str = "xdelay's memory";
const FAULTS: &str = "lost / twice / out of order";

fn head(title: &str, columns: &[&str]) -> String {
    let mut table = format!("{title}\n\n");
    row(&mut table, columns);
    row(&mut table, &vec!["---"; columns.len()]);
    table
}

fn row(table: &mut String, cells: &[&str]) {
    let _ = writeln!(table, "| {} |", cells.join(" | "));
}

fn faults(outcomes: &[Outcome]) -> String {
    let sum = |of: fn(&Arrivals) -> u64| -> u64 {
        outcomes.iter().filter_map(|outcome| outcome.arrived.as_ref()).map(of).sum()
    };
    let lost = count(sum(|arrived| arrived.lost));
    let twice = count(sum(|arrived| arrived.duplicates.max(arrived.duplicates_by_uid)));
    format!("{lost} / {twice} / {}", count(sum(|arrived| arrived.out_of_order)))
}

/// The most of any round.
fn memory(outcomes: &[Outcome]) -> String {
    let most = outcomes.iter().filter_map(|outcome| outcome.peak_memory).max();
    most.map_or_else(|| "-".to_owned(), bytes)
}

/// The medians of several rounds, with the spread of their p99, which a single pause decides.
fn rounds_of(rounds: &[Quantiles]) -> String {
    let of = |part: fn(&Quantiles) -> u64| span(median(rounds.iter().map(part)));
    let p99 = of(|round| round.p99);
    let least = rounds.iter().map(|round| round.p99).min().unwrap_or(0);
    let most = rounds.iter().map(|round| round.p99).max().unwrap_or(0);
    let spread = if rounds.len() > 1 {
        format!(" ({} to {})", span(least), span(most))
    } else {
        String::new()
    };
    format!("{} / {p99}{spread} / {}", of(|round| round.p50), of(|round| round.max))
}

fn quantiles(of: Quantiles) -> String {
    format!("{} / {} / {}", span(of.p50), span(of.p99), span(of.max))
}
