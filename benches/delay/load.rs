//! The process that publishes and records: one job, one outcome.
//!
//! Publisher and recorder have a connection each, as a producer and a consumer would. They share
//! this process and its threads, so that a publisher that uses all it can get makes the recorder
//! see arrivals late: lateness is overstated by that, never understated.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anyhow::{Context, bail};

use crate::clock::now_us;
use crate::job::{Job, Outcome};
use crate::recorder::Recorder;
use crate::side::Broker;
use crate::{amqp, kafka, role};

pub(crate) const ROLE: &str = "load";

/// What publisher and recorder both know of a round.
pub(crate) struct Round {
    pub job: Job,
    /// Marks the messages of this round.
    pub name: u64,
    /// For each message, the instant it is to arrive: written when it is published.
    pub planned_us: Vec<AtomicU64>,
    /// The latest of them, once all are published; before that 0.
    pub last_planned_us: AtomicU64,
}

pub(crate) fn main() -> anyhow::Result<ExitCode> {
    let (job, gone) = role::receive::<Job>()?;
    tokio::runtime::Runtime::new()?.block_on(async {
        tokio::select! {
            outcome = run(job) => role::say(&outcome?),
            _ = gone => bail!("whoever wanted the figures is gone"),
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn run(job: Job) -> anyhow::Result<Outcome> {
    let messages = usize::try_from(job.messages).context("too many messages")?;
    let round = Arc::new(Round {
        name: now_us(),
        planned_us: (0..messages).map(|_| AtomicU64::new(0)).collect(),
        last_planned_us: AtomicU64::new(0),
        job,
    });
    let publish = async |round| match round {
        (Broker::Rabbitmq, round) => amqp::publisher::publish(round).await,
        (Broker::Kafka, round) => kafka::publisher::publish(round).await,
    };
    let broker = round.job.broker;
    if !round.job.consume {
        return publish((broker, round)).await;
    }
    let recorder = Recorder::new(Arc::clone(&round))?;
    // Begins to consume before anything is published. Whichever fails ends both.
    let (outcome, arrived) = match broker {
        Broker::Rabbitmq => {
            let consumer = amqp::consumer::Consumer::start(&round.job).await?;
            let recording = tokio::spawn(consumer.record(recorder));
            tokio::try_join!(publish((broker, round)), async { recording.await? })?
        }
        Broker::Kafka => {
            let consumer = kafka::consumer::start(&round.job)?;
            let record = move || kafka::consumer::record(&consumer, recorder);
            let recording = tokio::task::spawn_blocking(record);
            tokio::try_join!(publish((broker, round)), async { recording.await? })?
        }
    };
    Ok(Outcome { arrived: Some(arrived), ..outcome })
}
