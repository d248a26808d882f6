//! Publishes: persistent messages of 100 bytes, confirmed, at most 1 000 of them unconfirmed.
//!
//! At a rate, every message has an instant that does not move: when the broker is slow, what
//! should have been published meanwhile is late by all of it, and is recorded so (no coordinated
//! omission). Timers here tick by the millisecond, which adds up to one to what the overshoot
//! shows; lateness, counted from the due, is free of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, bail};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation};
use tokio::time::sleep;

use crate::clock::now_us;
use crate::job::{Delay, Outcome, Path};
use crate::load::Round;
use crate::topology::{CAPTURE_EXCHANGE, EXCHANGE, ROUTING_KEY, close, connect};

const WINDOW: usize = 1_000;
pub(crate) const BODY_BYTES: usize = 100;
const PERSISTENT: u8 = 2;

/// Publishes the whole round.
pub(crate) async fn publish(round: Arc<Round>) -> anyhow::Result<Outcome> {
    let connection = connect(&round.job.amqp, "producer").await?;
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let mut plan = Plan::new(&round, now_us());
    let mut confirms = FuturesUnordered::new();
    let mut next = 0;
    while next < round.job.messages || !confirms.is_empty() {
        let mut wait = None;
        while next < round.job.messages && confirms.len() < WINDOW {
            let now = now_us();
            let at = plan.publish_at(next).unwrap_or(now);
            if at > now {
                wait = Some(Duration::from_micros(at - now));
                break;
            }
            let planned = plan.message(at);
            round.planned_us[usize::try_from(next)?].store(planned.arrives_us, Ordering::Release);
            confirms.push(send(&channel, &round, next, planned.header));
            next += 1;
        }
        tokio::select! {
            Some(confirmed) = confirms.next() => confirmed?,
            () = sleep(wait.unwrap_or_default()), if wait.is_some() => {}
        }
    }
    let last_confirm_us = now_us();
    let last_planned_us = plan.last_arrives_us.max(if round.job.rate.is_some() {
        0 // The schedule says when, however long the broker took.
    } else {
        last_confirm_us
    });
    round.last_planned_us.store(last_planned_us, Ordering::Release);
    close(&connection).await;
    Ok(Outcome {
        messages: round.job.messages,
        first_publish_us: plan.start_us,
        last_confirm_us,
        last_planned_us,
        arrived: None,
    })
}

/// Publishes one message and waits for its confirm.
async fn send(
    channel: &Channel,
    round: &Round,
    number: u64,
    (header, value): (&'static str, i64),
) -> anyhow::Result<()> {
    let mut headers = FieldTable::default();
    headers.insert(header.into(), AMQPValue::LongLongInt(value));
    let properties = BasicProperties::default()
        .with_delivery_mode(PERSISTENT)
        .with_message_id(format!("{}.{number}", round.name).into())
        .with_headers(headers);
    let exchange = match round.job.path {
        Path::Alone => EXCHANGE,
        Path::Relay | Path::Xdelay => CAPTURE_EXCHANGE,
    };
    let options = BasicPublishOptions::default();
    let body = body(number);
    let confirm = channel
        .basic_publish(exchange.into(), ROUTING_KEY.into(), options, &body, properties)
        .await
        .context("publishing")?;
    match confirm.await.context("waiting for a confirm")? {
        Confirmation::Ack(None) => Ok(()),
        other => bail!("the broker did not take a message: {other:?}"),
    }
}

/// What message `number` holds: its number, then its own bytes again and again.
pub(crate) fn body(number: u64) -> [u8; BODY_BYTES] {
    let bytes = number.to_be_bytes();
    std::array::from_fn(|at| bytes[at % bytes.len()])
}

/// When which message is to be published, and when it is to arrive.
struct Plan {
    path: Path,
    rate: Option<u64>,
    delay: Delay,
    start_us: u64,
    last_arrives_us: u64,
    random: fastrand::Rng,
}

struct Planned {
    header: (&'static str, i64),
    arrives_us: u64,
}

impl Plan {
    fn new(round: &Round, start_us: u64) -> Self {
        let (path, rate, delay) = (round.job.path, round.job.rate, round.job.delay);
        let random = fastrand::Rng::with_seed(round.job.messages);
        Self { path, rate, delay, start_us, last_arrives_us: 0, random }
    }

    /// The instant at which to publish message `number`, when there is a schedule.
    fn publish_at(&self, number: u64) -> Option<u64> {
        self.rate.map(|rate| self.start_us + number * 1_000_000 / rate)
    }

    /// For a message that is published at `at`.
    fn message(&mut self, at: u64) -> Planned {
        let (header, mut arrives_us) = match self.delay {
            Delay::Each(ms) => (("x-delay", ms), at + ms * 1_000),
            Delay::Between(from, to) => {
                let ms = self.random.u64(from..=to);
                (("x-delay", ms), at + ms * 1_000)
            }
            Delay::Together(ms) => {
                let due = self.start_us / 1_000 + ms;
                (("x-deliver-at", due), due * 1_000)
            }
        };
        if self.path != Path::Xdelay {
            // Nobody on this path heeds the header, which is there to make messages equal.
            arrives_us = at;
        }
        self.last_arrives_us = self.last_arrives_us.max(arrives_us);
        Planned { header: (header.0, i64::try_from(header.1).unwrap_or(i64::MAX)), arrives_us }
    }
}
