//! Consumes from where the topic ended before the round, and hands all to the recorder.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context;
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{BorrowedMessage, Headers, Message};

use super::consumer_config;
use super::topics::{TOPIC, add_ends};
use crate::job::{Arrivals, Job};
use crate::recorder::{Arrival, LOOK_EVERY, Recorder};

/// A partition that is not in a fetch which waits at the broker gets its turn when that one ends,
/// after half a second. So whoever reads, here and in between, is given time for its first fetches:
/// else the first records of a round would wait for them.
const FIRST_FETCHES: Duration = Duration::from_millis(1_500);

/// Finds the ends. Blocks, and is done before anything is published.
pub(crate) fn start(job: &Job) -> anyhow::Result<BaseConsumer> {
    let consumer: BaseConsumer = consumer_config(&job.server, "bench-recorder").create()?;
    let mut ends = TopicPartitionList::new();
    add_ends(&mut ends, &consumer, TOPIC)?;
    consumer.assign(&ends).context("reading the topic")?;
    sleep(FIRST_FETCHES);
    Ok(consumer)
}

/// Until the recorder has enough. Blocks.
pub(crate) fn record(consumer: &BaseConsumer, mut recorder: Recorder) -> anyhow::Result<Arrivals> {
    let mut looked = Instant::now();
    loop {
        if let Some(record) = consumer.poll(LOOK_EVERY) {
            recorder.take(arrival(&record.context("reading the topic")?));
        }
        if looked.elapsed() >= LOOK_EVERY {
            looked = Instant::now();
            if recorder.is_over() {
                return Ok(recorder.finish());
            }
        }
    }
}

fn arrival<'a>(record: &'a BorrowedMessage<'_>) -> Arrival<'a> {
    Arrival {
        id: record.key().and_then(|key| std::str::from_utf8(key).ok()),
        body: record.payload().unwrap_or_default(),
        mark: record.headers().and_then(mark),
        partition: record.partition(),
    }
}

/// What xdelay put on a record it released: due and uid.
fn mark(headers: &impl Headers) -> Option<(u64, Box<str>)> {
    let text = |name| {
        let found = headers.iter().find(|header| header.key == name)?;
        std::str::from_utf8(found.value?).ok()
    };
    Some((text("x-delayed-due")?.parse().ok()?, text("x-delayed-uid")?.into()))
}
