//! The thread that reads capture topics.
//!
//! librdkafka wants to be polled all the time: whoever is late is thrown out of the group. So one
//! thread does nothing else. It hands batches to the intake loop through a small channel; while
//! that is full for long, because the store is away, it pauses all partitions and goes on polling.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::BorrowedMessage;
use rdkafka::topic_partition_list::Offset;
use rdkafka::{Message as _, TopicPartitionList};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};

use super::begin::{self, Obstacle};
use super::capture::Reader;
use super::group::{self, Group};
use super::membership::SUBJECT;
use super::partition::{Partition, Read, Stage};
use super::properties;
use super::topology;
use crate::broker::Delivery;
use crate::config::{From, Topics};
use crate::finding::Finding;
use crate::health::Health;
use crate::metrics::Metrics;
use crate::retry::Backoff;
use crate::store::{Mark, Store};

/// Longest wait for a record, after which the thread looks after its partitions.
const POLL: Duration = Duration::from_millis(100);
/// Between two tellings of the group.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// How long a full channel is waited for before partitions are paused.
const PAUSE_AFTER: Duration = Duration::from_secs(1);
/// Until a partition that could not begin is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How far the end of the thread has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Reading,
    /// Takes no more; what was handed out can still become safe.
    Stopping,
    /// Tells the group what is safe, leaves it, and ends.
    Closing,
}

/// What it needs to read.
pub(super) struct Consumer {
    pub config: ClientConfig,
    pub runtime: Handle,
    pub topics: Topics,
    pub from: Option<From>,
    pub store: Arc<dyn Store>,
    pub reader: Reader,
    pub health: Arc<Health>,
    pub metrics: Arc<Metrics>,
    /// Most records and bytes of one batch.
    pub batch: (usize, usize),
}

impl Consumer {
    /// Reads until told to close.
    pub(super) fn run(
        self,
        sender: &mpsc::Sender<Vec<Delivery>>,
        mut phase: watch::Receiver<Phase>,
    ) {
        let mut backoff = Backoff::for_connections();
        loop {
            match self.join(sender.clone()) {
                Ok(consumer) => {
                    return self.read(&consumer, &mut phase);
                }
                Err(why) => self.health.report(Finding::bad(SUBJECT, why)),
            }
            let again = Instant::now() + backoff.failed();
            while Instant::now() < again {
                if *phase.borrow_and_update() != Phase::Reading || phase.has_changed().is_err() {
                    return;
                }
                std::thread::sleep(POLL);
            }
        }
    }

    fn join(&self, sender: mpsc::Sender<Vec<Delivery>>) -> Result<BaseConsumer<Group>, String> {
        let group = Group::new(self.runtime.clone(), sender, Arc::clone(&self.health));
        let made: Result<BaseConsumer<Group>, _> = self.config.create_with_context(group);
        let consumer = made.map_err(|error| properties::in_words(&error))?;
        let topics: Vec<String> = match &self.topics {
            Topics::All => vec![topology::ALL.to_owned()],
            Topics::Named(names) => names.iter().map(|name| topology::capture(name)).collect(),
        };
        let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
        consumer.subscribe(&topics).map_err(|error| error.to_string())?;
        Ok(consumer)
    }

    fn read(&self, consumer: &BaseConsumer<Group>, phase: &mut watch::Receiver<Phase>) {
        let group = Arc::clone(consumer.context());
        let (mut told, mut paused) = (Instant::now(), false);
        let mut said = None;
        loop {
            let now = *phase.borrow_and_update();
            if now == Phase::Closing || phase.has_changed().is_err() {
                break;
            }
            if now != Phase::Reading && !paused {
                paused = self.pause(consumer, true);
            }
            if !paused {
                self.look_after(consumer, &group);
            }
            self.gather(consumer, &group, now == Phase::Reading);
            let room = group.hand_over(if paused { Duration::ZERO } else { PAUSE_AFTER });
            if now == Phase::Reading && room == paused {
                paused = self.pause(consumer, !room) && !room;
            }
            let finding = group.finding();
            if finding.is_some() && finding != said {
                finding.clone().into_iter().for_each(|finding| self.health.report(finding));
                said = finding;
            }
            if told.elapsed() >= TELL_EVERY {
                group.tell(consumer, CommitMode::Async);
                told = Instant::now();
            }
        }
        group.tell(consumer, CommitMode::Sync);
        group.end();
    }

    /// Polls until there is enough in hand or nothing more is buffered.
    fn gather(&self, consumer: &BaseConsumer<Group>, group: &Group, reading: bool) {
        let (most, most_bytes) = self.batch;
        let (mut count, mut bytes) = (group.hand().len(), 0);
        let full_already = count >= most;
        let mut wait = POLL;
        while full_already || (count < most && bytes < most_bytes) {
            match consumer.poll(wait) {
                None => return,
                Some(Ok(record)) if reading => {
                    bytes += record.payload_len() + record.key_len();
                    count += usize::from(self.take(&record, consumer, group));
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => self.meet(&error, consumer, group),
            }
            if full_already {
                return;
            }
            wait = Duration::ZERO;
        }
    }

    /// Takes one record in hand, unless it is none to hand out.
    fn take(
        &self,
        record: &BorrowedMessage<'_>,
        consumer: &BaseConsumer<Group>,
        group: &Group,
    ) -> bool {
        let mut partitions = group.partitions();
        let partition =
            partitions.get_mut(record.topic()).and_then(|of| of.get_mut(&record.partition()));
        let Some(partition) = partition else { return false };
        match partition.take(record, &self.reader) {
            Read::Delivery(delivery) => {
                group.hand().push(*delivery);
                true
            }
            Read::Nothing => false,
            Read::Stranger => {
                self.reborn(partition, consumer, record.topic(), group);
                false
            }
        }
    }

    /// The topic is another one: reading begins anew, in a life of its own.
    fn reborn(
        &self,
        partition: &mut Partition,
        consumer: &BaseConsumer<Group>,
        topic: &str,
        group: &Group,
    ) {
        let destination = &partition.destination;
        self.metrics.of(destination).recreated();
        tracing::warn!(%destination, partition = partition.number, "the topic is another one under the same name: it is read from its beginning");
        let born = async {
            let sight = begin::look(consumer, topic, partition.number)?;
            let stood = self.store.mark(destination, partition.log()).await;
            let life = stood.map_err(|error| error.to_string())?.map_or(0, |mark| mark.life + 1);
            let mark = Mark { life, next: sight.first, stamp: None };
            let put = self.store.set_mark(destination, partition.log(), mark).await;
            put.map_err(|error| error.to_string())
        };
        if let Err(why) = group.runtime.block_on(born) {
            // The mark stands where it stood, and the next begin meets the stranger again.
            tracing::warn!(why, "the mark could not be moved");
        }
        rest(partition, consumer, topic, Instant::now());
    }

    /// Begins what waits to begin, and what the store stands elsewhere of.
    fn look_after(&self, consumer: &BaseConsumer<Group>, group: &Group) {
        let now = Instant::now();
        let mut due = Vec::new();
        for (topic, partitions) in group.partitions().iter_mut() {
            for partition in partitions.values_mut() {
                if matches!(partition.stage, Stage::Reads) && partition.ledger.is_moved() {
                    let destination = &partition.destination;
                    tracing::warn!(%destination, partition = partition.number, "the store stands elsewhere: reads on from its mark");
                    rest(partition, consumer, topic, now);
                }
                if matches!(partition.stage, Stage::Begins(when) if when <= now) {
                    due.push((topic.clone(), partition.number, partition.destination.clone()));
                }
            }
        }
        for (topic, number, destination) in due {
            let begun = self.begin(consumer, group, &topic, number);
            let subject = group::subject(&destination, number);
            match begun {
                Ok(()) => self.health.forget(&subject),
                Err(obstacle) => {
                    let (Obstacle::Away(why) | Obstacle::Ask(why)) = obstacle;
                    self.health.report(Finding::bad(subject, why));
                    let mut partitions = group.partitions();
                    let waiting = partitions.get_mut(&topic).and_then(|of| of.get_mut(&number));
                    if let Some(partition) = waiting {
                        rest(partition, consumer, &topic, Instant::now() + AGAIN_AFTER);
                    }
                }
            }
        }
    }

    fn begin(
        &self,
        consumer: &BaseConsumer<Group>,
        group: &Group,
        topic: &str,
        number: i32,
    ) -> Result<(), Obstacle> {
        let sight = begin::look(consumer, topic, number).map_err(Obstacle::Away)?;
        let (destination, log) = {
            let partitions = group.partitions();
            let partition = partitions.get(topic).and_then(|of| of.get(&number));
            let Some(partition) = partition else { return Ok(()) };
            (partition.destination.clone(), partition.log())
        };
        let metrics = self.metrics.of(&destination);
        let found = begin::find(&*self.store, &destination, log, sight, self.from, &metrics);
        let start = group.runtime.block_on(found)?;
        let mut partitions = group.partitions();
        let partition = partitions.get_mut(topic).and_then(|of| of.get_mut(&number));
        let Some(partition) = partition else { return Ok(()) };
        let offset = partition.begin(start.mark, start.first);
        let offset = Offset::Offset(i64::try_from(offset).unwrap_or(i64::MAX));
        let mut one = TopicPartitionList::new();
        let begun = one
            .add_partition_offset(topic, number, offset)
            .and_then(|()| consumer.incremental_assign(&one))
            // It may have been paused when it was read last.
            .and_then(|()| consumer.resume(&one));
        begun.map_err(|error| Obstacle::Away(error.to_string()))
    }

    /// An error that belongs to no record.
    fn meet(&self, error: &KafkaError, consumer: &BaseConsumer<Group>, group: &Group) {
        match error.rdkafka_error_code() {
            // Where we read there is nothing: retention was quicker, or the topic is another one.
            // Which partition it is is not said, so all begin anew at their marks.
            Some(RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange) => {
                for (topic, partitions) in group.partitions().iter_mut() {
                    for partition in partitions.values_mut() {
                        rest(partition, consumer, topic, Instant::now());
                    }
                }
            }
            // Said by `check`, with what to do about it.
            Some(RDKafkaErrorCode::UnknownTopicOrPartition) => {}
            Some(
                RDKafkaErrorCode::GroupAuthorizationFailed
                | RDKafkaErrorCode::TopicAuthorizationFailed,
            ) => {
                let why = format!("{error}: grant this user Read on the group and its topics");
                self.health.report_for(Finding::bad(SUBJECT, why), Duration::from_secs(30));
            }
            _ => tracing::debug!(%error, "reading"),
        }
    }

    /// Pauses or resumes all that is read.
    fn pause(&self, consumer: &BaseConsumer<Group>, pause: bool) -> bool {
        let mut all = TopicPartitionList::new();
        for (topic, partitions) in consumer.context().partitions().iter() {
            for partition in partitions.values().filter(|it| matches!(it.stage, Stage::Reads)) {
                all.add_partition(topic, partition.number);
            }
        }
        let done = if pause { consumer.pause(&all) } else { consumer.resume(&all) };
        if let Err(error) = &done {
            tracing::debug!(%error, pause, "pausing");
        }
        done.is_ok()
    }
}

/// Nothing more of this partition is read; it begins anew at `when`.
fn rest(partition: &mut Partition, consumer: &BaseConsumer<Group>, topic: &str, when: Instant) {
    if matches!(partition.stage, Stage::Reads) {
        let mut one = TopicPartitionList::new();
        one.add_partition(topic, partition.number);
        if let Err(error) = consumer.incremental_unassign(&one) {
            tracing::debug!(%error, "a partition was not let go");
        }
    }
    partition.rest_until(when);
}
