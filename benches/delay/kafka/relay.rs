//! Reads, writes with acks=all and idempotence, commits.
//!
//! One thread reads and hands on, the clients' own threads send and confirm in batches. A record
//! keeps its partition number: that saves choosing one, and makes the confirms of what was read
//! from a partition come in order, so that the last one is what can be committed.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::{BorrowedMessage, DeliveryResult, Message};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use rdkafka::{ClientContext, Offset, TopicPartitionList};

use super::publisher::is_full;
use super::topics::{CAPTURE_TOPIC, PARTITIONS, TOPIC};
use super::{ANSWER_WITHIN, consumer_config, producer_config};
use crate::clock::now_us;
use crate::role;

/// xdelay commits as often as this, or less.
const COMMIT_EVERY: Duration = Duration::from_millis(100);
/// How long to wait for a record, which a commit may have to wait for as well.
const POLL: Duration = Duration::from_millis(20);
/// While the producer has no room.
const PAUSE: Duration = Duration::from_millis(1);

/// Of each partition the first offset that is not written yet; below 0 once a write failed.
type Written = Arc<Vec<AtomicI64>>;

struct Confirms(Written);

impl ClientContext for Confirms {}

impl ProducerContext for Confirms {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, offset: usize) {
        let (partition, next) = match result {
            Ok(record) => (record.partition(), i64::try_from(offset + 1).unwrap_or(FAILED)),
            Err((_, record)) => (record.partition(), FAILED),
        };
        if let Some(written) = usize::try_from(partition).ok().and_then(|at| self.0.get(at)) {
            written.store(next, Ordering::Release);
        }
    }
}

const FAILED: i64 = -1;

/// Relays until it is ended. Blocks.
pub(crate) fn relay(brokers: &str) -> anyhow::Result<()> {
    let from: BaseConsumer =
        consumer_config(brokers, &format!("bench-relay-{}", now_us())).create()?;
    let mut start = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        start.add_partition_offset(CAPTURE_TOPIC, partition, Offset::Beginning)?;
    }
    from.assign(&start).context("reading the capture topic")?;
    let written: Written = Arc::new((0..PARTITIONS).map(|_| AtomicI64::new(0)).collect());
    let to: ThreadedProducer<_> =
        producer_config(brokers).create_with_context(Confirms(Arc::clone(&written)))?;
    // Who leads a partition is asked before the first record, which would wait for it.
    to.client().fetch_metadata(Some(TOPIC), ANSWER_WITHIN).context("looking at the topic")?;
    role::say(&"ready")?;
    let mut committed = Instant::now();
    loop {
        if let Some(record) = from.poll(POLL) {
            forward(&to, &record.context("reading the capture topic")?)?;
        }
        if committed.elapsed() >= COMMIT_EVERY {
            committed = Instant::now();
            commit(&from, &written)?;
        }
    }
}

fn forward(to: &ThreadedProducer<Confirms>, record: &BorrowedMessage<'_>) -> anyhow::Result<()> {
    let mut out = BaseRecord::with_opaque_to(TOPIC, usize::try_from(record.offset())?)
        .partition(record.partition())
        .key(record.key().unwrap_or_default())
        .payload(record.payload().unwrap_or_default());
    out.headers = record.headers().map(|headers| headers.detach());
    loop {
        out = match to.send(out) {
            Ok(()) => return Ok(()),
            Err((error, out)) if is_full(&error) => out,
            Err((error, _)) => bail!("publishing: {error}"),
        };
        sleep(PAUSE);
    }
}

fn commit(from: &BaseConsumer, written: &Written) -> anyhow::Result<()> {
    let mut offsets = TopicPartitionList::new();
    for (partition, next) in (0..PARTITIONS).zip(written.iter()) {
        match next.load(Ordering::Acquire) {
            FAILED => bail!("Kafka did not take a record"),
            0 => {}
            next => offsets.add_partition_offset(CAPTURE_TOPIC, partition, Offset::Offset(next))?,
        }
    }
    if offsets.count() > 0 {
        from.commit(&offsets, CommitMode::Async).context("committing")?;
    }
    Ok(())
}
