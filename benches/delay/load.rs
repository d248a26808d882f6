//! The process that publishes and records: one job, one outcome.
//!
//! Publisher and recorder have a connection each, as a producer and a consumer would. They share
//! this process and its threads, so that a publisher that uses all it can get makes the recorder
//! see arrivals late: lateness is overstated by that, never understated.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use futures_util::StreamExt;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Consumer};
use tokio::time::interval;

use crate::clock::now_us;
use crate::job::{Arrivals, Job, Outcome};
use crate::publisher;
use crate::recorder::Recorder;
use crate::role;
use crate::topology::{QUEUE, close, connect};

pub(crate) const ROLE: &str = "load";

/// What a consumer may hold unacked, and after how many it acks.
const PREFETCH: u16 = 2_000;
const ACK_EVERY: u64 = 500;
/// How long to look for copies after everything has arrived.
const LINGER: Duration = Duration::from_millis(500);

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
    if !round.job.consume {
        return publisher::publish(round).await;
    }
    let connection = connect(&round.job.amqp, "consumer").await?;
    let channel = connection.create_channel().await?;
    channel.basic_qos(PREFETCH, BasicQosOptions::default()).await?;
    let (options, none) = (BasicConsumeOptions::default(), FieldTable::default());
    let consumer = channel.basic_consume(QUEUE.into(), "recorder".into(), options, none).await?;
    let recording = tokio::spawn(record(Arc::clone(&round), consumer, channel));
    let publishing = tokio::spawn(publisher::publish(round));
    // Whichever fails ends both.
    let (outcome, arrived) =
        tokio::try_join!(async { publishing.await? }, async { recording.await? })?;
    close(&connection).await;
    Ok(Outcome { arrived: Some(arrived), ..outcome })
}

async fn record(
    round: Arc<Round>,
    mut consumer: Consumer,
    channel: Channel,
) -> anyhow::Result<Arrivals> {
    let mut recorder = Recorder::new(Arc::clone(&round))?;
    let patience = Duration::from_secs(round.job.patience);
    let mut look = interval(Duration::from_millis(100));
    let (mut unacked, mut last_tag) = (0, 0);
    let mut last_arrival_us = now_us();
    loop {
        tokio::select! {
            delivery = consumer.next() => {
                let delivery = delivery.context("the broker ended the consumer")??;
                last_arrival_us = now_us();
                recorder.take(&delivery, last_arrival_us);
                (unacked, last_tag) = (unacked + 1, delivery.delivery_tag);
                if unacked == ACK_EVERY {
                    ack(&channel, last_tag).await?;
                    unacked = 0;
                }
            }
            _ = look.tick() => {
                let planned = round.last_planned_us.load(Ordering::Acquire);
                let quiet = now_us().saturating_sub(last_arrival_us.max(planned));
                let enough = if recorder.is_complete() { LINGER } else { patience };
                if planned > 0 && u128::from(quiet) >= enough.as_micros() {
                    break;
                }
            }
        }
    }
    if unacked > 0 {
        ack(&channel, last_tag).await?;
    }
    Ok(recorder.finish())
}

async fn ack(channel: &Channel, tag: u64) -> anyhow::Result<()> {
    channel.basic_ack(tag, BasicAckOptions { multiple: true }).await.context("acknowledging")
}
