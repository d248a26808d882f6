//! The result of a run, as data: raw outcomes, and the few figures made from them.

use anyhow::Context;
use serde::Serialize;
use time::OffsetDateTime;

use crate::clock::seconds;
use crate::figure::{median, per_second};
use crate::job::{Arrivals, Delay, Outcome};
use crate::machine::{Machine, OUTPUT, output_dir};
use crate::options::Options;
use crate::side::{Setup, Side};
use crate::steering::Steering;

/// Above this load average something else was running.
const QUIET: f64 = 0.5;

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub date: String,
    pub machine: Machine,
    pub options: Options,
    pub contests: Vec<Contest>,
    pub rates: Vec<Rates>,
    pub bursts: Vec<Burst>,
    pub backlogs: Vec<Backlog>,
    pub connections: Option<Connections>,
}

/// All rounds of one side.
#[derive(Debug, Serialize)]
pub(crate) struct Series {
    pub side: Side,
    /// Messages per second that were asked for; none where it was as many as possible.
    pub rate: Option<u64>,
    pub outcomes: Vec<Outcome>,
}

/// Rounds as fast as it goes.
#[derive(Debug, Serialize)]
pub(crate) struct Contest {
    pub name: &'static str,
    /// What the others are compared with.
    pub yardstick: Side,
    pub body_bytes: usize,
    pub delay: Delay,
    pub series: Vec<Series>,
}

/// Rounds at fixed rates.
#[derive(Debug, Serialize)]
pub(crate) struct Rates {
    pub name: &'static str,
    pub body_bytes: usize,
    pub delay: Delay,
    pub series: Vec<Series>,
}

/// Everything due at one instant.
#[derive(Debug, Serialize)]
pub(crate) struct Burst {
    pub setup: Setup,
    pub outcome: Outcome,
    pub due_us: u64,
    /// When xdelay had all of it in its store.
    pub parked_us: u64,
}

/// Many parked messages, and what was measured beside them.
#[derive(Debug, Serialize)]
pub(crate) struct Backlog {
    pub setup: Setup,
    pub messages: u64,
    pub park_seconds: f64,
    /// By how much the store grew: Redis' memory, or the embedded one's files.
    pub store_bytes: u64,
    pub peak_memory: Option<u64>,
    pub idle: Option<Idle>,
    pub rates: Vec<Series>,
    pub steering: Option<Steering>,
    pub starts: Vec<Start>,
}

/// Processor time while nothing was to be done.
#[derive(Debug, Serialize)]
pub(crate) struct Idle {
    pub seconds: f64,
    pub xdelay_seconds: f64,
    pub redis_seconds: f64,
    /// That xdelay had in use, in bytes.
    pub memory: u64,
}

/// A start of xdelay while messages were due.
#[derive(Debug, Serialize)]
pub(crate) struct Start {
    pub started_us: u64,
    pub outcome: Outcome,
}

/// Connections through the proxy that do nothing. Memory is that of xdelay, in bytes.
#[derive(Debug, Serialize)]
pub(crate) struct Connections {
    pub count: u32,
    pub before: u64,
    pub after: u64,
    pub connect_seconds: f64,
}

impl Series {
    pub(crate) fn new(side: Side, rate: Option<u64>) -> Self {
        Self { side, rate, outcomes: Vec::new() }
    }

    /// What every round of it saw.
    pub(crate) fn arrivals(&self) -> impl Iterator<Item = &Arrivals> {
        self.outcomes.iter().filter_map(|outcome| outcome.arrived.as_ref())
    }

    /// The rate of its round in the middle.
    pub(crate) fn median_rate(&self) -> u64 {
        median(self.outcomes.iter().map(Outcome::rate))
    }
}

impl Contest {
    /// The one that the others are compared with.
    pub(crate) fn yardstick(&self) -> Option<&Series> {
        self.series.iter().find(|series| series.side == self.yardstick)
    }

    /// Which share of the yardstick's rate a side has.
    pub(crate) fn share(&self, of: &Series) -> f64 {
        let yardstick = self.yardstick().map_or(0, Series::median_rate);
        of.median_rate() as f64 / yardstick.max(1) as f64
    }

    /// The same for each pair of neighbouring rounds, from the least to the most.
    pub(crate) fn shares(&self, of: &Series) -> Vec<f64> {
        let Some(yardstick) = self.yardstick() else { return Vec::new() };
        let pairs = of.outcomes.iter().zip(&yardstick.outcomes);
        let mut shares: Vec<f64> =
            pairs.map(|(one, other)| one.rate() as f64 / other.rate().max(1) as f64).collect();
        shares.sort_by(f64::total_cmp);
        shares
    }
}

impl Start {
    /// Microseconds from the start of the process to the first arrival.
    pub(crate) fn to_first_us(&self) -> u64 {
        let arrived = self.outcome.arrived.as_ref();
        arrived.map_or(0, |arrived| arrived.first_arrival_us.saturating_sub(self.started_us))
    }
}

impl Connections {
    /// Bytes of each.
    pub(crate) fn each(&self) -> u64 {
        self.after.saturating_sub(self.before) / u64::from(self.count.max(1))
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

impl Report {
    pub(crate) fn new(options: Options, machine: Machine) -> Self {
        let date = OffsetDateTime::now_utc().date().to_string();
        Self {
            date,
            machine,
            options,
            contests: Vec::new(),
            rates: Vec::new(),
            bursts: Vec::new(),
            backlogs: Vec::new(),
            connections: None,
        }
    }

    /// Says what makes the figures worth little, before time is spent on them.
    pub(crate) fn warn(&self) {
        let load = self.machine.load_before;
        if load > QUIET {
            eprintln!("the load average was {load} before this began: is the machine quiet?");
        }
    }

    /// All of it, raw outcomes included.
    pub(crate) fn json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Writes it as JSON, also under a name that stays the same; answers the other name.
    pub(crate) fn save(&self) -> anyhow::Result<String> {
        let json = self.json()?;
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
        for (name, side, outcome) in self.outcomes() {
            let Some(arrived) = &outcome.arrived else { continue };
            let side = side.name(self.options.broker);
            let of = flaws_of(outcome, arrived);
            flaws.extend(of.map(|flaw| format!("{name}, {side}: {flaw}")));
        }
        if self.bursts.iter().any(|burst| burst.parked_us > burst.due_us) {
            flaws.push("burst: it was due before all of it was parked".to_owned());
        }
        flaws
    }

    /// Where xdelay has less than the share of the yardstick's rate that was asked for.
    pub(crate) fn below_floor(&self) -> Vec<String> {
        let Some(floor) = self.options.floor else { return Vec::new() };
        let mut below = Vec::new();
        for contest in &self.contests {
            let xdelays =
                contest.series.iter().filter(|series| matches!(series.side, Side::Xdelay(_)));
            for series in xdelays {
                let share = contest.share(series);
                if share < floor {
                    let broker = self.options.broker;
                    let (side, yardstick) =
                        (series.side.name(broker), contest.yardstick.name(broker));
                    let name = contest.name;
                    below
                        .push(format!("{name}: {side} has {share:.2} of {yardstick}, not {floor}"));
                }
            }
        }
        below
    }

    /// What took longer than a person at the web page, or a consumer, should wait.
    pub(crate) fn too_slow(&self) -> Vec<String> {
        let steering = self.backlogs.iter().filter_map(|backlog| backlog.steering.as_ref());
        steering.flat_map(Steering::too_slow).collect()
    }

    fn outcomes(&self) -> impl Iterator<Item = (&'static str, Side, &Outcome)> {
        fn each<'a>(
            name: &'static str,
            all: &'a [Series],
        ) -> impl Iterator<Item = (&'static str, Side, &'a Outcome)> {
            all.iter().flat_map(move |series| {
                series.outcomes.iter().map(move |outcome| (name, series.side, outcome))
            })
        }
        let contests = self.contests.iter().flat_map(|of| each(of.name, &of.series));
        let rates = self.rates.iter().flat_map(|of| each(of.name, &of.series));
        let bursts = self.bursts.iter().map(|of| ("burst", Side::Xdelay(of.setup), &of.outcome));
        let backlogs = self.backlogs.iter().flat_map(|of| each("backlog", &of.rates));
        let starts = self.backlogs.iter().flat_map(|of| {
            of.starts.iter().map(|start| ("start", Side::Xdelay(of.setup), &start.outcome))
        });
        let steering = self.backlogs.iter().filter_map(|of| of.steering.as_ref());
        let steering = steering.flat_map(|of| {
            let series = [&of.unwatched, &of.watched].into_iter();
            series.flat_map(|of| each("steering", std::slice::from_ref(of)))
        });
        contests.chain(rates).chain(bursts).chain(backlogs).chain(starts).chain(steering)
    }
}

fn flaws_of(outcome: &Outcome, arrived: &Arrivals) -> impl Iterator<Item = String> {
    let arrivals = outcome.messages - arrived.lost + arrived.duplicates;
    let marked = if outcome.held { arrivals } else { 0 };
    let counts = [
        (arrived.lost, "lost"),
        (arrived.duplicates, "arrived again, by message id"),
        (arrived.duplicates_by_uid, "arrived again, by uid"),
        (arrived.early, "came before their due"),
        (arrived.garbled, "came with another body"),
        (arrived.strangers, "were of no concern to this round"),
        (arrived.marked.abs_diff(marked), "took another way than they should have"),
    ];
    let wrong = counts.into_iter().filter(|(count, _)| *count > 0);
    wrong.map(move |(count, what)| format!("{count} messages {what}"))
}

/// 10:31:09 as 103109.
fn time_of_day(now: OffsetDateTime) -> u32 {
    let (hour, minute, second) = now.to_hms();
    u32::from(hour) * 10_000 + u32::from(minute) * 100 + u32::from(second)
}
