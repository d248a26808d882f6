//! Writes records that are keyed by their id, so that each has a partition of its own choosing.
//!
//! The client bounds how many are unconfirmed, and gathers them into batches by itself; a future
//! for each would only take time from those who are measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, bail};
use rdkafka::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};

use super::{ANSWER_WITHIN, producer_config};
use crate::clock::now_us;
use crate::job::Outcome;
use crate::load::Round;
use crate::plan::{Plan, body};

/// While the client has no room, and between two looks at the schedule.
const PAUSE: Duration = Duration::from_millis(1);

/// An idempotent producer asks for its id each half second until a broker gives one; records wait.
const GETS_ID_WITHIN: Duration = Duration::from_millis(1_100);

/// Counts what was not taken.
struct Reports(Arc<AtomicU64>);

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if result.is_err() {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Writes the whole round.
pub(crate) async fn publish(round: Arc<Round>) -> anyhow::Result<Outcome> {
    tokio::task::spawn_blocking(move || write(&round)).await?
}

fn write(round: &Round) -> anyhow::Result<Outcome> {
    let refused = Arc::new(AtomicU64::new(0));
    let producer: ThreadedProducer<_> =
        producer_config(&round.job.producer).create_with_context(Reports(Arc::clone(&refused)))?;
    // Who leads a partition is asked before the first record, which would wait for it.
    let known = producer.client().fetch_metadata(Some(&round.job.to), ANSWER_WITHIN);
    known.context("looking at the topic")?;
    sleep(GETS_ID_WITHIN);
    let mut plan = Plan::new(round);
    let mut number = 0;
    while number < round.job.messages {
        let now = now_us();
        let at = plan.publish_at(number).unwrap_or(now);
        if at > now {
            sleep(PAUSE.max(Duration::from_micros(at - now)));
            continue;
        }
        let header = plan.message(number, at)?;
        send(&producer, round, number, header.map(|(name, value)| (name, value.to_string())))?;
        number += 1;
    }
    producer.flush(Duration::from_secs(round.job.patience)).context("waiting for confirms")?;
    match refused.load(Ordering::Relaxed) {
        0 => Ok(plan.end()),
        refused => bail!("Kafka did not take {refused} records"),
    }
}

fn send(
    producer: &ThreadedProducer<Reports>,
    round: &Round,
    number: u64,
    header: Option<(&str, String)>,
) -> anyhow::Result<()> {
    let (key, body) = (format!("{}.{number}", round.name), body(number, round.job.body_bytes));
    let mut record = BaseRecord::to(&round.job.to).key(&key).payload(&body);
    if let Some((key, value)) = &header {
        record = record.headers(OwnedHeaders::new().insert(Header { key, value: Some(value) }));
    }
    loop {
        record = match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((error, record)) if is_full(&error) => record,
            Err((error, _)) => bail!("publishing: {error}"),
        };
        sleep(PAUSE);
    }
}

/// Whether the client has as many in hand as it may.
pub(super) fn is_full(error: &KafkaError) -> bool {
    error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull)
}
