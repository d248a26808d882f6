//! This replica's part of the group: which partitions it has, and what happens when they come and
//! go. librdkafka calls in on the thread that polls.
//!
//! A partition that is taken away is first finished: what was handed out of it is waited for, the
//! group is told how far it is safe, and only then may another replica have it. What is not parked
//! by then is void here and read again there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::TopicPartitionList;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::topic_partition_list::Offset;
use rdkafka::types::RDKafkaRespErr;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::link::say;
use super::membership::Joining;
use super::partition::{Partition, Stage};
use super::topology;
use crate::broker::Delivery;
use crate::crash::{self, Point};
use crate::finding::Finding;
use crate::health::Health;
use crate::message::Destination;

/// How long what was handed out of a partition may take until it goes to another replica.
const FINISH_WITHIN: Duration = Duration::from_secs(5);

/// Partitions by capture topic and number.
pub(super) type Partitions = HashMap<String, HashMap<i32, Partition>>;

/// What the thread that polls shares with librdkafka's calls on it.
pub(super) struct Group {
    pub runtime: Handle,
    sender: mpsc::Sender<Vec<Delivery>>,
    /// Read and not yet handed over.
    hand: Mutex<Vec<Delivery>>,
    partitions: Mutex<Partitions>,
    joining: Mutex<Joining>,
    health: Arc<Health>,
}

/// What health says of a partition that cannot be read.
pub(super) fn subject(destination: &Destination, number: i32) -> String {
    format!("partition {number} of {destination}")
}

impl Group {
    pub(super) fn new(
        runtime: Handle,
        sender: mpsc::Sender<Vec<Delivery>>,
        health: Arc<Health>,
    ) -> Self {
        Self {
            runtime,
            sender,
            hand: Mutex::default(),
            partitions: Mutex::default(),
            joining: Mutex::new(Joining::new()),
            health,
        }
    }

    pub(super) fn partitions(&self) -> MutexGuard<'_, Partitions> {
        self.partitions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn hand(&self) -> MutexGuard<'_, Vec<Delivery>> {
        self.hand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn joining(&self) -> MutexGuard<'_, Joining> {
        self.joining.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be said of reading; nothing while it is on its way.
    pub(super) fn finding(&self) -> Option<Finding> {
        self.joining().finding(&self.partitions())
    }

    /// Hands over what was read; false when there is no room within that time. Blocks.
    pub(super) fn hand_over(&self, within: Duration) -> bool {
        if self.hand().is_empty() {
            return true;
        }
        let room = async { tokio::time::timeout(within, self.sender.reserve()).await };
        match self.runtime.block_on(room) {
            Ok(Ok(permit)) => permit.send(std::mem::take(&mut *self.hand())),
            // Nobody takes anything any more: what is in hand is read again.
            Ok(Err(_)) => self.hand().clear(),
            Err(_) => return false,
        }
        true
    }

    /// Tells the group how far everything is safe.
    pub(super) fn tell(&self, consumer: &BaseConsumer<Self>, mode: CommitMode) {
        let mut safe = TopicPartitionList::new();
        for (topic, partitions) in self.partitions().iter_mut() {
            for partition in partitions.values_mut() {
                add(&mut safe, topic, partition);
            }
        }
        commit(consumer, &safe, mode);
    }

    /// Nothing that was handed out counts any more.
    pub(super) fn end(&self) {
        self.hand().clear();
        self.partitions().values().flat_map(HashMap::values).for_each(|it| it.ledger.end());
    }

    fn assigned(&self, consumer: &BaseConsumer<Self>, assigned: &TopicPartitionList) {
        // The group has its answer, librdkafka reads nothing yet: where to begin is found out
        // later, on the same thread. A place to wait at, such as the end, would not do: librdkafka
        // asks the cluster where that is, and when the answer is late it overrules a seek made
        // meanwhile, and what lies between is never read (rd_kafka_toppar_handle_Offset, 2.12).
        if let Err(error) = consumer.incremental_assign(&TopicPartitionList::new()) {
            tracing::warn!(%error, "an assignment was not taken");
        }
        let mut partitions = self.partitions();
        for element in assigned.elements() {
            let Some(name) = topology::destination(element.topic()) else { continue };
            let partition = Partition::new(Destination::kafka(name), element.partition());
            let of_topic = partitions.entry(element.topic().to_owned()).or_default();
            of_topic.insert(element.partition(), partition);
        }
    }

    fn revoked(&self, consumer: &BaseConsumer<Self>, revoked: &TopicPartitionList) {
        let lost = consumer.assignment_lost();
        let deadline = Instant::now() + FINISH_WITHIN;
        if !lost {
            self.hand_over(FINISH_WITHIN);
        }
        let (mut safe, mut read) = (TopicPartitionList::new(), TopicPartitionList::new());
        for element in revoked.elements() {
            let topic = element.topic();
            let taken =
                self.partitions().get_mut(topic).and_then(|of| of.remove(&element.partition()));
            let Some(mut partition) = taken else { continue };
            if matches!(partition.stage, Stage::Reads) {
                read.add_partition(topic, partition.number);
            }
            if !lost {
                let left = deadline.saturating_duration_since(Instant::now());
                partition.ledger.wait_until_secured(left);
                add(&mut safe, topic, &mut partition);
            }
            partition.ledger.end();
            self.health.forget(&subject(&partition.destination, partition.number));
        }
        commit(consumer, &safe, CommitMode::Sync);
        if let Err(error) = consumer.incremental_unassign(&read) {
            tracing::debug!(%error, "a revocation was not taken");
        }
    }
}

/// Adds what is new to tell of a partition.
fn add(safe: &mut TopicPartitionList, topic: &str, partition: &mut Partition) {
    let Some(offset) = partition.untold() else { return };
    partition.told = Some(offset);
    let offset = Offset::Offset(i64::try_from(offset).unwrap_or(i64::MAX));
    // It fails for offsets that no record has.
    let _ = safe.add_partition_offset(topic, partition.number, offset);
}

/// Nothing depends on it but what others see of our progress: reading goes on at the marks.
fn commit(consumer: &BaseConsumer<Group>, safe: &TopicPartitionList, mode: CommitMode) {
    if safe.count() > 0 {
        if let Err(error) = consumer.commit(safe, mode) {
            tracing::debug!(%error, "the group was not told");
        }
        crash::pass(Point::AckedUnnoted);
    }
}

impl ClientContext for Group {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        say(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, reason, "librdkafka");
    }

    fn stats_raw(&self, statistics: &[u8]) {
        self.joining().note(statistics);
    }
}

impl ConsumerContext for Group {
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        what: RDKafkaRespErr,
        partitions: &mut TopicPartitionList,
    ) {
        match what {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => {
                tracing::info!(partitions = partitions.count(), "reads more partitions");
                self.assigned(consumer, partitions);
            }
            _ => {
                tracing::info!(partitions = partitions.count(), "gives partitions up");
                self.revoked(consumer, partitions);
            }
        }
    }

    fn commit_callback(&self, result: rdkafka::error::KafkaResult<()>, _: &TopicPartitionList) {
        if let Err(error) = result {
            tracing::debug!(%error, "the group was not told");
        }
    }
}
