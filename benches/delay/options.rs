//! What can be chosen on the command line. The servers to measure with come from the environment,
//! as `dev/services run` sets it.

use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::{Parser, ValueEnum};
use serde::Serialize;

use crate::figure::size;
use crate::side::{Broker, Setup, Store, Through};

/// Measures the throughput and lateness of xdelay beside a relay that does nothing.
#[derive(Parser, Clone, Debug, Serialize)]
#[command(bin_name = "cargo bench --bench delay --", max_term_width = 100)]
pub(crate) struct Options {
    /// What to measure [default: flat-out rate burst]
    #[arg(value_enum)]
    pub scenarios: Vec<Scenario>,
    /// What carries the messages
    #[arg(long, value_enum, default_value_t)]
    pub broker: Broker,
    /// Ways into xdelay, as sides of one run
    #[arg(long, value_enum, value_delimiter = ',', default_value = "capture")]
    pub through: Vec<Through>,
    /// Where xdelay parks, as sides of one run
    #[arg(long, value_enum, value_delimiter = ',', default_value = "redis")]
    pub store: Vec<Store>,
    /// How many xdelays share the work, as sides of one run
    #[arg(long, value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u32).range(1..=200))]
    pub replicas: Vec<u32>,
    /// Flat out and rate: sizes of a message's body, one after another, such as 100,1KiB,64KiB
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_value = "100")]
    #[arg(value_parser = size)]
    pub body: Vec<usize>,
    /// A smoke run of less than a minute: its figures mean nothing
    #[arg(long)]
    pub quick: bool,
    /// Put tables, plots and data into docs/, at the place in docs/benchmarks.md that is called so,
    /// unless something is not right
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "rabbitmq", conflicts_with = "quick")]
    #[serde(skip)]
    pub write: Option<String>,
    /// Fail when xdelay has less than this share of the rate it is compared with
    #[arg(long, value_name = "RATIO")]
    pub floor: Option<f64>,
    /// Rounds of each side, which alternate
    #[arg(long, default_value_t = 5)]
    pub rounds: u32,
    /// Flat out: messages of one round, fewer where their bodies are large
    #[arg(long, default_value_t = 100_000)]
    pub messages: u64,
    /// Rate: messages per second [default: 1000,5000]
    #[arg(long = "rate", value_name = "RATE", value_delimiter = ',')]
    pub rates: Vec<u64>,
    /// Rate: how long to publish in one round
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,
    /// Burst: messages due at one instant
    #[arg(long, default_value_t = 200_000)]
    pub burst: u64,
    /// Backlog, idle, start, steering: messages that stay parked
    #[arg(long, default_value_t = 1_000_000)]
    pub backlog: u64,
    /// Idle: how long to watch
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub idle: u64,
    /// Connections: how many
    #[arg(long, default_value_t = 5_000)]
    pub connections: u32,
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
    /// The same for messages that are captured and ask for no delay: `x-delay: 0`
    AtOnce,
    /// Messages without a header, which xdelay lets pass, against the broker alone
    Passing,
    /// Lateness at fixed rates
    Rate,
    /// Everything due at one instant
    Burst,
    /// The rates again, beside many parked messages
    Backlog,
    /// What xdelay and Redis use while many messages are parked and nothing is to be done
    Idle,
    /// From the start of xdelay to its first release, with many messages parked
    Start,
    /// How long it takes to look at many parked messages, and what that costs releases
    Steering,
    /// Memory of the proxy for each connection that does nothing
    Connections,
}

impl Options {
    /// RabbitMQ; its exchange `bench` and all that belongs to it is taken over.
    pub(crate) fn amqp() -> anyhow::Result<String> {
        server("TEST_AMQP_URL")
    }

    /// Kafka; its topics `bench` and `xdelay.bench` are taken over.
    pub(crate) fn kafka() -> anyhow::Result<String> {
        server("TEST_KAFKA_BROKERS")
    }

    /// Redis; keys are only added, in namespaces of their own.
    pub(crate) fn redis() -> anyhow::Result<String> {
        server("TEST_REDIS_URL")
    }

    pub(crate) fn wants(&self, scenario: Scenario) -> bool {
        match self.scenarios.as_slice() {
            [] => matches!(scenario, Scenario::FlatOut | Scenario::Rate | Scenario::Burst),
            named => named.contains(&scenario),
        }
    }

    /// What is really run: rates filled in, a smoke run cut short, no side that cannot be.
    pub(crate) fn settled(mut self) -> anyhow::Result<Self> {
        if self.rates.is_empty() {
            self.rates = vec![1_000, 5_000];
        }
        if self.quick {
            self.rounds = self.rounds.min(2);
            self.messages = self.messages.min(15_000);
            self.seconds = self.seconds.min(2);
            self.burst = self.burst.min(15_000);
            self.backlog = self.backlog.min(30_000);
            self.idle = self.idle.min(3);
            self.connections = self.connections.min(200);
        }
        ensure!(
            self.setups().next().is_some(),
            "the embedded store serves one process alone: --store redis for more replicas"
        );
        if self.broker == Broker::Kafka {
            let of_rabbitmq = |named| self.scenarios.contains(named);
            ensure!(
                self.through == [Through::Capture]
                    && ![Scenario::Passing, Scenario::Connections].iter().any(of_rabbitmq),
                "the proxy, and what passes xdelay, are RabbitMQ's alone: --broker rabbitmq"
            );
        }
        Ok(self)
    }

    /// Every way in which xdelay is set up.
    pub(crate) fn setups(&self) -> impl Iterator<Item = Setup> {
        let sharable = |setup: &Setup| setup.store == Store::Redis || setup.replicas == 1;
        let each = self.store.iter().flat_map(move |&store| {
            self.replicas.iter().flat_map(move |&replicas| {
                self.through.iter().map(move |&through| Setup { through, store, replicas })
            })
        });
        each.filter(sharable)
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
