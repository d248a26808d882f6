//! The result of a run, as Markdown.

use std::fmt::Write;

use crate::clock::seconds;
use crate::job::{Arrivals, Outcome, Path, Quantiles};
use crate::machine::Machine;
use crate::report::{Backlog, Burst, FlatOut, Rate, Report, per_second};

/// All tables of a run.
pub(crate) fn tables(report: &Report) -> String {
    let mut parts = vec![machine(&report.machine, &report.date)];
    if report.options.quick {
        parts.push("**A smoke run: too short for its figures to mean anything.**".to_owned());
    }
    if !report.options.set.is_empty() {
        parts.push(format!("Not the defaults: {}.", report.options.set.join(", ")));
    }
    let (from, to) = report.options.delays();
    let delays = format!("delays from {} to {}", span(from * 1_000), span(to * 1_000));
    if let Some(flat_out) = &report.flat_out {
        parts.push(flat_out_table(flat_out));
    }
    if !report.rates.is_empty() {
        let title = format!("**At a rate**, {} s, {delays}", report.options.seconds);
        parts.push(rate_table(&title, &report.rates));
    }
    if let Some(burst) = &report.burst {
        parts.push(burst_table(burst));
    }
    if let Some(backlog) = &report.backlog {
        parts.push(backlog_table(backlog, &delays));
    }
    parts.iter().map(|part| part.trim()).collect::<Vec<_>>().join("\n\n")
}

fn machine(machine: &Machine, date: &str) -> String {
    let Machine { cores, cpu, kernel, load_before, xdelay, rabbitmq, redis, rustc, .. } = machine;
    let memory = bytes(machine.memory_bytes);
    format!(
        "Measured {date} on {cores} cores ({cpu}), {memory} of memory, Linux {kernel}, load average \
         {load_before} before. xdelay {xdelay}, RabbitMQ {rabbitmq}, Redis {redis} (append-only \
         file, `appendfsync always`), rustc {rustc}."
    )
}

fn flat_out_table(flat_out: &FlatOut) -> String {
    let relay = Spread::of(&flat_out.relay);
    let sides = [
        ("RabbitMQ alone", &flat_out.alone),
        ("do-nothing relay", &flat_out.relay),
        ("xdelay, `x-delay: 1`", &flat_out.xdelay),
    ];
    let mut table = head(
        &format!("**Flat out**, {} messages a round", first(&flat_out.xdelay)),
        &["through", "rounds", "median (least to most)", "of the relay", FAULTS],
    );
    for (name, outcomes) in sides {
        let Spread { least, median, most } = Spread::of(outcomes);
        let rate = format!("{}/s ({} to {})", count(median), count(least), count(most));
        let ratio = format!("{:.2}", median as f64 / relay.median.max(1) as f64);
        row(&mut table, &[name, &outcomes.len().to_string(), &rate, &ratio, &faults(outcomes)]);
    }
    let pairs = flat_out.xdelay.iter().zip(&flat_out.relay);
    let mut ratios: Vec<f64> =
        pairs.map(|(xdelay, relay)| xdelay.rate() as f64 / relay.rate().max(1) as f64).collect();
    ratios.sort_by(f64::total_cmp);
    if let (Some(least), Some(most)) = (ratios.first(), ratios.last()) {
        let _ = write!(table, "\nRatio of neighbouring rounds: {least:.2} to {most:.2}.");
    }
    table
}

fn rate_table(title: &str, rates: &[Rate]) -> String {
    let mut table = head(title, &["through", "asked", "kept", LATENESS, OVERSHOOT, FAULTS]);
    for Rate { path, rate, outcomes } in rates {
        let arrivals: Vec<&Arrivals> =
            outcomes.iter().filter_map(|outcome| outcome.arrived.as_ref()).collect();
        let rounds = |of: fn(&Arrivals) -> Quantiles| {
            rounds_of(&arrivals.iter().map(|arrived| of(arrived)).collect::<Vec<_>>())
        };
        let (name, lateness) = match path {
            Path::Xdelay => ("xdelay", rounds(|arrived| arrived.lateness)),
            Path::Relay => ("do-nothing relay, no delay", "-".to_owned()),
            Path::Alone => ("RabbitMQ alone, no delay", "-".to_owned()),
        };
        let kept = median(outcomes.iter().map(|outcome| outcome.kept(*rate)));
        let (asked, kept) = (format!("{}/s", count(*rate)), format!("{}/s", count(kept)));
        let overshoot = rounds(|arrived| arrived.overshoot);
        row(&mut table, &[name, &asked, &kept, &lateness, &overshoot, &faults(outcomes)]);
    }
    table
}

fn burst_table(burst: &Burst) -> String {
    let Burst { outcome, due_us, parked_us, .. } = burst;
    let columns = ["messages", "accepted", "parked", "drained", LATENESS, FAULTS];
    let mut table = head("**Burst**, all due at one instant", &columns);
    let arrived = outcome.arrived.clone().unwrap_or_default();
    let drained =
        per_second(outcome.messages - arrived.lost, seconds(*due_us, arrived.last_arrival_us));
    let parked = per_second(outcome.messages, seconds(outcome.first_publish_us, *parked_us));
    let cells = [
        count(outcome.messages),
        format!("{}/s", count(outcome.accepted())),
        format!("{}/s", count(parked)),
        format!("{}/s", count(drained)),
        quantiles(arrived.lateness),
        faults(std::slice::from_ref(outcome)),
    ];
    row(&mut table, &cells.each_ref().map(String::as_str));
    table + &peak(burst.peak_memory)
}

fn backlog_table(backlog: &Backlog, delays: &str) -> String {
    let messages = count(backlog.messages);
    let title = format!("**Beside {messages} parked messages**, {delays}");
    let mut table = rate_table(&title, &backlog.rates);
    let each = backlog.redis_bytes / backlog.messages.max(1);
    let rate = count(per_second(backlog.messages, backlog.park_seconds));
    let _ = write!(table, "\nParked at {rate}/s; Redis holds {each} bytes for each.");
    table + &peak(backlog.peak_memory)
}

const LATENESS: &str = "lateness p50 / p99 (rounds) / max";
const OVERSHOOT: &str = "overshoot p50 / p99 (rounds) / max";
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

/// Of an even number, the middle between the two in the middle.
fn median(values: impl Iterator<Item = u64>) -> u64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    let at = |place: usize| values.get(place).copied().unwrap_or(0);
    at(values.len().saturating_sub(1) / 2).midpoint(at(values.len() / 2))
}

fn quantiles(of: Quantiles) -> String {
    format!("{} / {} / {}", span(of.p50), span(of.p99), span(of.max))
}

fn peak(memory: Option<u64>) -> String {
    memory.map_or_else(String::new, |memory| format!("\nxdelay used {} at most.\n", bytes(memory)))
}

fn first(outcomes: &[Outcome]) -> String {
    count(outcomes.first().map_or(0, |outcome| outcome.messages))
}

/// Rates of several rounds.
struct Spread {
    least: u64,
    median: u64,
    most: u64,
}

impl Spread {
    fn of(outcomes: &[Outcome]) -> Self {
        let rates = || outcomes.iter().map(Outcome::rate);
        Self {
            least: rates().min().unwrap_or(0),
            median: median(rates()),
            most: rates().max().unwrap_or(0),
        }
    }
}

/// 13900 as "13 900".
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    grouped
}

/// Microseconds with as many digits as mean something.
pub(crate) fn span(us: u64) -> String {
    match us {
        0..10_000 => format!("{:.1} ms", us as f64 / 1e3),
        10_000..1_000_000 => format!("{:.0} ms", us as f64 / 1e3),
        _ => format!("{:.1} s", us as f64 / 1e6),
    }
}

fn bytes(bytes: u64) -> String {
    let mib = bytes as f64 / 1_048_576.0;
    if mib < 1_024.0 { format!("{mib:.0} MiB") } else { format!("{:.1} GiB", mib / 1_024.0) }
}
