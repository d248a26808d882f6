//! What can be chosen on the command line. The servers to measure with come from the environment,
//! as `dev/services run` sets it.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Parser, ValueEnum};
use serde::Serialize;

/// Measures the throughput and lateness of xdelay beside a relay that does nothing.
#[derive(Parser, Clone, Debug, Serialize)]
#[command(bin_name = "cargo bench --bench delay --", max_term_width = 100)]
pub(crate) struct Options {
    /// What to measure [default: flat-out rate burst]
    #[arg(value_enum)]
    pub scenarios: Vec<Scenario>,
    /// A smoke run of less than a minute: its figures mean nothing
    #[arg(long)]
    pub quick: bool,
    /// Put the tables into docs/benchmarks.md, unless something is not right
    #[arg(long, conflicts_with = "quick")]
    #[serde(skip)]
    pub write: bool,
    /// Flat out and rate: rounds of each side, which alternate
    #[arg(long, default_value_t = 5)]
    pub rounds: u32,
    /// Flat out: messages of one round
    #[arg(long, default_value_t = 100_000)]
    pub messages: u64,
    /// Rate: messages per second; may be given several times [default: 1000 5000]
    #[arg(long = "rate", value_name = "RATE")]
    pub rates: Vec<u64>,
    /// Rate: how long to publish in one round
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,
    /// Burst: messages due at one instant
    #[arg(long, default_value_t = 200_000)]
    pub burst: u64,
    /// Backlog: messages that stay parked while the rates are measured
    #[arg(long, default_value_t = 1_000_000)]
    pub backlog: u64,
    /// How long without any arrival until what is missing counts as lost, in seconds
    #[arg(long, default_value_t = 30)]
    pub patience: u64,
    /// A setting of xdelay, such as --set release.batch=100; without any, its defaults
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// The xdelay to measure; by itself the one that cargo built along, with the features of tests
    #[arg(long, value_name = "FILE", default_value = env!("CARGO_BIN_EXE_xdelay"))]
    #[arg(hide_default_value = true)]
    #[serde(skip)]
    pub xdelay: PathBuf,
    /// Cargo says this when it benchmarks, and does not when it tests
    #[arg(long, hide = true)]
    #[serde(skip)]
    pub bench: bool,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Scenario {
    /// As fast as it goes, against the relay and against the broker alone
    FlatOut,
    /// Lateness at fixed rates
    Rate,
    /// Everything due at one instant
    Burst,
    /// The rates again, beside many parked messages
    Backlog,
}

impl Options {
    /// RabbitMQ; its exchange `bench` and all that belongs to it is taken over.
    pub(crate) fn amqp() -> anyhow::Result<String> {
        server("TEST_AMQP_URL")
    }

    /// Redis; keys are only added, in namespaces of their own.
    pub(crate) fn redis() -> anyhow::Result<String> {
        server("TEST_REDIS_URL")
    }

    pub(crate) fn wants(&self, scenario: Scenario) -> bool {
        match self.scenarios.as_slice() {
            [] => scenario != Scenario::Backlog,
            named => named.contains(&scenario),
        }
    }

    /// What is really run: rates filled in, a smoke run cut short.
    pub(crate) fn settled(mut self) -> Self {
        if self.rates.is_empty() {
            self.rates = vec![1_000, 5_000];
        }
        if self.quick {
            self.rounds = self.rounds.min(2);
            self.messages = self.messages.min(15_000);
            self.seconds = self.seconds.min(2);
            self.burst = self.burst.min(15_000);
            self.backlog = self.backlog.min(30_000);
        }
        self
    }

    /// The delays of the rate scenario, in milliseconds, from and to.
    pub(crate) fn delays(&self) -> (u64, u64) {
        if self.quick { (500, 1_500) } else { (1_000, 5_000) }
    }
}

fn server(variable: &str) -> anyhow::Result<String> {
    std::env::var(variable)
        .with_context(|| format!("{variable} is not set; dev/bench starts servers and sets it"))
}
