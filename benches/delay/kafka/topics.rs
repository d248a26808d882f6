//! The topic that an application would have. The capture topic beside it is made by xdelay itself,
//! with as many partitions, and the relay reads that very topic.

use anyhow::{Context, anyhow};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};

use super::{ANSWER_WITHIN, client};

/// Where records are meant to arrive.
pub(crate) const TOPIC: &str = "bench";
/// Where producers write what is to be delayed.
pub(crate) const CAPTURE_TOPIC: &str = "xdelay.bench";
pub(crate) const PARTITIONS: i32 = 4;

/// Declares the application's side.
pub(crate) async fn declare(brokers: &str) -> anyhow::Result<()> {
    let admin: AdminClient<DefaultClientContext> = client(brokers).create()?;
    let topic = NewTopic::new(TOPIC, PARTITIONS, TopicReplication::Fixed(1));
    let created = admin.create_topics([&topic], &options()).await.context("creating a topic")?;
    match created.into_iter().next() {
        Some(Err((_, code))) if code != RDKafkaErrorCode::TopicAlreadyExists => {
            Err(anyhow!("Kafka creates no topic: {code}"))
        }
        _ => Ok(()),
    }
}

/// Removes every record that is there: of an earlier round, and what one left behind.
pub(crate) async fn empty(brokers: &str) -> anyhow::Result<()> {
    let ends = {
        let consumer: BaseConsumer = client(brokers).create()?;
        let mut ends = TopicPartitionList::new();
        add_ends(&mut ends, &consumer, TOPIC)?;
        add_ends(&mut ends, &consumer, CAPTURE_TOPIC)?;
        ends
    };
    let admin: AdminClient<DefaultClientContext> = client(brokers).create()?;
    let deleted = admin.delete_records(&ends, &options()).await.context("emptying the topics")?;
    deleted.elements().iter().try_for_each(|of| of.error()).context("emptying the topics")
}

/// Adds where each partition of a topic ends. Blocks.
pub(crate) fn add_ends(
    to: &mut TopicPartitionList,
    consumer: &BaseConsumer,
    topic: &str,
) -> anyhow::Result<()> {
    for partition in 0..PARTITIONS {
        let (_, end) = consumer
            .fetch_watermarks(topic, partition, ANSWER_WITHIN)
            .with_context(|| format!("where partition {partition} of {topic} ends"))?;
        to.add_partition_offset(topic, partition, Offset::Offset(end))?;
    }
    Ok(())
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(ANSWER_WITHIN)).operation_timeout(Some(ANSWER_WITHIN))
}
