//! What it costs to look at many parked messages: for who looks, and for what falls due meanwhile.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread::scope;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use serde::Serialize;

use crate::figure::{count, median, span};
use crate::fleet::Fleet;
use crate::job::{Delay, Outcome};
use crate::report::Series;
use crate::scenarios::{BODY_BYTES, say, tell};
use crate::side::Side;
use crate::sidecar::Sidecar;
use crate::stage::{Stage, Traffic};

/// How often each is looked at.
const LOOKS: usize = 50;
/// Messages per second that fall due while somebody looks.
const RATE: u64 = 1_000;
/// How often somebody reloads the web page.
const RELOAD: Duration = Duration::from_secs(1);
/// How late half of the messages may be, with or without somebody who looks, in microseconds.
const LATENESS_MAX_US: u64 = 50_000;

/// Name, request, and how long half of the answers may take, in microseconds. What is filtered
/// costs more: as many as a page may look at are read, and none matches.
const SIGHTS: [(&str, &str, u64); 4] = [
    ("stats", "/v1/stats", 10_000),
    ("backlog", "/v1/backlog?slot_ms=3600000&slots=48", 10_000),
    ("a page", "/v1/messages?limit=50", 10_000),
    ("a page, filtered", "/v1/messages?limit=50&key=nobody-has-it", 50_000),
];

/// What the web page asks for when it is opened.
const PAGE: [&str; 4] = [SIGHTS[0].1, SIGHTS[1].1, SIGHTS[2].1, "/v1/history?limit=100"];

/// What was measured.
#[derive(Debug, Serialize)]
pub(crate) struct Steering {
    pub looks: Vec<Look>,
    /// Lateness while nobody looks, and while somebody reloads the page.
    pub unwatched: Series,
    pub watched: Series,
}

/// One request, made again and again.
#[derive(Debug, Serialize)]
pub(crate) struct Look {
    pub name: &'static str,
    /// How long each answer took, in microseconds, from the shortest to the longest.
    pub took_us: Vec<u64>,
    /// How long half of them may take.
    pub limit_us: u64,
}

impl Look {
    pub(crate) fn median(&self) -> u64 {
        median(self.took_us.iter().copied())
    }

    pub(crate) fn longest(&self) -> u64 {
        self.took_us.last().copied().unwrap_or(0)
    }
}

impl Steering {
    /// Lateness of half of the messages of each kind of round, in words.
    pub(crate) fn lateness(&self) -> [(&'static str, u64, u64); 2] {
        let of = |series: &Series, part: fn(&crate::job::Quantiles) -> u64| {
            median(series.arrivals().map(|arrived| part(&arrived.lateness)))
        };
        [("nobody looks", &self.unwatched), ("the page is reloaded each second", &self.watched)]
            .map(|(name, series)| (name, of(series, |it| it.p50), of(series, |it| it.p99)))
    }

    /// What took longer than it may.
    pub(crate) fn too_slow(&self) -> Vec<String> {
        let slow = self.looks.iter().filter(|look| look.median() > look.limit_us);
        let looks = slow.map(|look| {
            let (took, limit) = (span(look.median()), span(look.limit_us));
            format!("steering: {} takes {took}, not {limit}", look.name)
        });
        let late = self.lateness().into_iter().filter(|(_, p50, _)| *p50 > LATENESS_MAX_US);
        let late = late.map(|(name, p50, _)| {
            format!("steering: {} late while {name}, not {}", span(p50), span(LATENESS_MAX_US))
        });
        looks.chain(late).collect()
    }
}

/// Looks beside what is parked.
pub(crate) fn measure(stage: &Stage<'_>, fleet: &Fleet) -> anyhow::Result<Steering> {
    let looks = SIGHTS.iter().map(|sight| look(fleet.first()?, sight));
    let looks = looks.collect::<anyhow::Result<Vec<_>>>()?;
    let side = Side::Xdelay(fleet.setup());
    let mut steering = Steering {
        looks,
        unwatched: Series::new(side, Some(RATE)),
        watched: Series::new(side, Some(RATE)),
    };
    for round in 1..=stage.options.rounds {
        let outcome = traffic(stage, fleet)?;
        tell(&format!("{}/s, nobody looks, round {round}", count(RATE)), RATE, &outcome);
        steering.unwatched.outcomes.push(outcome);
        let outcome = while_reloaded(fleet.first()?, || traffic(stage, fleet))?;
        tell(&format!("{}/s, page reloaded, round {round}", count(RATE)), RATE, &outcome);
        steering.watched.outcomes.push(outcome);
    }
    Ok(steering)
}

fn look(
    sidecar: &Sidecar,
    &(name, path, limit_us): &(&'static str, &'static str, u64),
) -> anyhow::Result<Look> {
    let mut took_us = Vec::with_capacity(LOOKS);
    for _ in 0..LOOKS {
        let asked = Instant::now();
        see(sidecar, path)?;
        took_us.push(asked.elapsed().as_micros() as u64);
    }
    took_us.sort_unstable();
    let look = Look { name, took_us, limit_us };
    say(&format!("{name}: {}, at most {}", span(look.median()), span(look.longest())));
    Ok(look)
}

/// A look has to show something.
fn see(sidecar: &Sidecar, path: &str) -> anyhow::Result<()> {
    let answer = sidecar.get(path).with_context(|| format!("looking at {path}"))?;
    let status = answer.lines().next().unwrap_or_default();
    if status.contains(" 200 ") { Ok(()) } else { Err(anyhow!("{path}: {status}")) }
}

fn traffic(stage: &Stage<'_>, fleet: &Fleet) -> anyhow::Result<Outcome> {
    let (from, to) = stage.options.delays();
    let messages = RATE * stage.options.seconds;
    let delay = Delay::Between(from, to);
    let traffic = Traffic { messages, body_bytes: BODY_BYTES, rate: Some(RATE), delay };
    stage.load(&stage.job(Side::Xdelay(fleet.setup()), Some(fleet), traffic)?)
}

/// Does it while somebody reloads the page.
fn while_reloaded<T>(
    sidecar: &Sidecar,
    done: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    scope(|scope| {
        let (over, is_over) = sync_channel::<()>(1);
        let reader = scope.spawn(move || -> anyhow::Result<()> {
            while is_over.recv_timeout(RELOAD) == Err(RecvTimeoutError::Timeout) {
                PAGE.iter().try_for_each(|path| see(sidecar, path))?;
            }
            Ok(())
        });
        let done = done();
        drop(over);
        reader.join().map_err(|_| anyhow!("who reloads the page failed"))??;
        done
    })
}
