//! The result of a run, as data: raw outcomes, and the few figures made from them.

use anyhow::Context;
use serde::Serialize;
use time::OffsetDateTime;

use crate::clock::seconds;
use crate::job::{Arrivals, Outcome, Path};
use crate::machine::{Machine, OUTPUT, output_dir};
use crate::options::Options;

/// Above this load average something else was running.
const QUIET: f64 = 0.5;

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub date: String,
    pub machine: Machine,
    pub options: Options,
    pub flat_out: Option<FlatOut>,
    pub rates: Vec<Rate>,
    pub burst: Option<Burst>,
    pub backlog: Option<Backlog>,
}

/// Rounds as fast as it goes.
#[derive(Debug, Default, Serialize)]
pub(crate) struct FlatOut {
    pub alone: Vec<Outcome>,
    pub relay: Vec<Outcome>,
    pub xdelay: Vec<Outcome>,
}

/// Rounds at a fixed rate.
#[derive(Debug, Serialize)]
pub(crate) struct Rate {
    pub path: Path,
    pub rate: u64,
    pub outcomes: Vec<Outcome>,
}

impl Rate {
    pub(crate) fn new(path: Path, rate: u64) -> Self {
        Self { path, rate, outcomes: Vec::new() }
    }

    fn named(&self, name: &'static str) -> impl Iterator<Item = (&'static str, Path, &Outcome)> {
        self.outcomes.iter().map(move |outcome| (name, self.path, outcome))
    }
}

/// Everything due at one instant.
#[derive(Debug, Serialize)]
pub(crate) struct Burst {
    pub outcome: Outcome,
    pub due_us: u64,
    /// When xdelay had all of it in Redis.
    pub parked_us: u64,
    pub peak_memory: Option<u64>,
}

/// The rates beside many parked messages.
#[derive(Debug, Serialize)]
pub(crate) struct Backlog {
    pub messages: u64,
    pub park_seconds: f64,
    /// By how much Redis grew.
    pub redis_bytes: u64,
    pub peak_memory: Option<u64>,
    pub rates: Vec<Rate>,
}

impl FlatOut {
    pub(crate) fn of(&mut self, path: Path) -> &mut Vec<Outcome> {
        match path {
            Path::Alone => &mut self.alone,
            Path::Relay => &mut self.relay,
            Path::Xdelay => &mut self.xdelay,
        }
    }
}

impl Outcome {
    /// From the first publish to the last arrival, per second: start and end included.
    pub(crate) fn rate(&self) -> u64 {
        let Some(arrived) = &self.arrived else { return 0 };
        let messages = self.messages - arrived.lost;
        per_second(messages, seconds(self.first_publish_us, arrived.last_arrival_us))
    }

    /// From the first publish to the last confirm, per second.
    pub(crate) fn accepted(&self) -> u64 {
        per_second(self.messages, seconds(self.first_publish_us, self.last_confirm_us))
    }

    /// What became of a schedule of `rate`: the rate itself, unless the last message came later
    /// than it was planned to.
    pub(crate) fn kept(&self, rate: u64) -> u64 {
        let Some(arrived) = &self.arrived else { return 0 };
        let overrun = seconds(self.last_planned_us, arrived.last_arrival_us);
        per_second(self.messages - arrived.lost, self.messages as f64 / rate as f64 + overrun)
    }
}

pub(crate) fn per_second(messages: u64, seconds: f64) -> u64 {
    if seconds > 0.0 { (messages as f64 / seconds).round() as u64 } else { 0 }
}

impl Report {
    pub(crate) fn new(options: Options, machine: Machine) -> Self {
        let date = OffsetDateTime::now_utc().date().to_string();
        Self {
            date,
            machine,
            options,
            flat_out: None,
            rates: Vec::new(),
            burst: None,
            backlog: None,
        }
    }

    /// Says what makes the figures worth little, before time is spent on them.
    pub(crate) fn warn(&self) {
        let load = self.machine.load_before;
        if load > QUIET {
            eprintln!("the load average was {load} before this began: is the machine quiet?");
        }
    }

    /// Writes it as JSON, also under a name that stays the same; answers the other name.
    pub(crate) fn save(&self) -> anyhow::Result<String> {
        let json = serde_json::to_string_pretty(self)?;
        let now = OffsetDateTime::now_utc();
        let name = format!("{}-{:06}.json", self.date, time_of_day(now));
        for name in [&*name, "latest.json"] {
            let file = output_dir()?.join(name);
            std::fs::write(file, &json).with_context(|| format!("writing {OUTPUT}/{name}"))?;
        }
        Ok(format!("{OUTPUT}/{name}"))
    }

    /// What must not happen, whatever the speed: figures of a run with flaws are worth nothing.
    pub(crate) fn flaws(&self) -> Vec<String> {
        let mut flaws = Vec::new();
        for (name, path, outcome) in self.outcomes() {
            let Some(arrived) = &outcome.arrived else { continue };
            flaws.extend(flaws_of(path, outcome, arrived).map(|flaw| format!("{name}: {flaw}")));
        }
        if let Some(burst) = &self.burst
            && burst.parked_us > burst.due_us
        {
            flaws.push("burst: it was due before all of it was parked".to_owned());
        }
        flaws
    }

    fn outcomes(&self) -> impl Iterator<Item = (&'static str, Path, &Outcome)> {
        let flat_out = self.flat_out.iter().flat_map(|flat_out| {
            let sides = [
                (Path::Alone, &flat_out.alone),
                (Path::Relay, &flat_out.relay),
                (Path::Xdelay, &flat_out.xdelay),
            ];
            sides.into_iter().flat_map(|(path, outcomes)| {
                outcomes.iter().map(move |outcome| ("flat out", path, outcome))
            })
        });
        let rates = self.rates.iter().flat_map(|rate| rate.named("rate"));
        let burst = self.burst.iter().map(|burst| ("burst", Path::Xdelay, &burst.outcome));
        let backlog = self.backlog.iter().flat_map(|backlog| &backlog.rates);
        let backlog = backlog.flat_map(|rate| rate.named("backlog"));
        flat_out.chain(rates).chain(burst).chain(backlog)
    }
}

fn flaws_of(path: Path, outcome: &Outcome, arrived: &Arrivals) -> impl Iterator<Item = String> {
    let arrivals = outcome.messages - arrived.lost + arrived.duplicates;
    let marked = if path == Path::Xdelay { arrivals } else { 0 };
    let counts = [
        (arrived.lost, "lost"),
        (arrived.duplicates, "arrived again, by message id"),
        (arrived.duplicates_by_uid, "arrived again, by uid"),
        (arrived.early, "came before their due"),
        (arrived.garbled, "came with another body"),
        (arrived.strangers, "were of no concern to this round"),
        (arrived.marked.abs_diff(marked), "took another way than they should have"),
    ];
    let path = format!("{path:?}").to_lowercase();
    let wrong = counts.into_iter().filter(|(count, _)| *count > 0);
    wrong.map(move |(count, what)| format!("{path}: {count} messages {what}"))
}

/// 10:31:09 as 103109.
fn time_of_day(now: OffsetDateTime) -> u32 {
    let (hour, minute, second) = now.to_hms();
    u32::from(hour) * 10_000 + u32::from(minute) * 100 + u32::from(second)
}
