//! Publishes due records to their topics.
//!
//! One idempotent producer for all destinations: a batch is handed to it in order, and each record
//! is settled by its own delivery report. A topic is asked for before the first record goes to it:
//! librdkafka would wait for a missing one until every record of the batch timed out.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use futures_util::future::join_all;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::producer::FutureRecord;
use rdkafka::producer::future_producer::DeliveryFuture;
use tokio::time::timeout_at;

use super::link::{Link, Producer};
use super::outgoing;
use super::refusal;
use crate::broker::{NotReleased, Released};
use crate::crash::{self, Point};
use crate::message::{Content, Destination, Reason};
use crate::store::Lease;

type Outcome = Result<Released, NotReleased>;

/// The releasing side of the adapter.
pub(super) struct Releaser {
    pub link: Link,
    preserve_partition: bool,
    /// Topics that are known to stand.
    known: Mutex<HashSet<String>>,
}

impl Releaser {
    pub(super) fn new(link: Link, preserve_partition: bool) -> Self {
        Self { link, preserve_partition, known: Mutex::default() }
    }

    /// See [`crate::broker::Broker::release`].
    pub(super) async fn release(
        &self,
        destination: &Destination,
        batch: &[Lease],
        deadline: Instant,
    ) -> Vec<Outcome> {
        let refuse_all = |why: NotReleased| batch.iter().map(|_| Err(why.clone())).collect();
        if let Err(why) = self.look(&destination.name).await {
            return refuse_all(why);
        }
        let producer = match self.link.producer() {
            Ok(producer) => producer,
            Err(why) => return refuse_all(NotReleased::Waiting(Reason::new("connection", why))),
        };
        let sent: Vec<_> =
            batch.iter().map(|lease| self.send(&producer, &destination.name, lease)).collect();
        let reports = batch.iter().zip(sent).map(|(lease, sent)| async move {
            match sent {
                Ok(report) => self.report(lease, report, deadline).await,
                Err(why) => Err(why),
            }
        });
        let mut outcomes = join_all(reports).await;
        if batch.len() > 1 {
            self.one_by_one(&producer, &destination.name, (batch, deadline), &mut outcomes).await;
        }
        let doubtful = |outcome: &Outcome| {
            matches!(outcome, Err(NotReleased::Waiting(_) | NotReleased::Unconfirmed(_)))
        };
        if outcomes.iter().any(doubtful) {
            self.known().remove(&*destination.name);
        }
        outcomes
    }

    /// A topic bounds whole batches of the protocol, so one record that is too large takes its
    /// neighbours with it: each is tried alone, and its own size decides.
    async fn one_by_one(
        &self,
        producer: &Producer,
        topic: &str,
        (batch, deadline): (&[Lease], Instant),
        outcomes: &mut [Outcome],
    ) {
        for (lease, outcome) in batch.iter().zip(outcomes) {
            let too_large = |why: &Reason| why.label() == refusal::TOO_LARGE;
            if !matches!(outcome, Err(NotReleased::Refused(why)) if too_large(why)) {
                continue;
            }
            *outcome = if Instant::now() >= deadline {
                let why = "no time was left to try it alone";
                Err(NotReleased::Late(Reason::new("late", why)))
            } else {
                match self.send(producer, topic, lease) {
                    Ok(report) => self.report(lease, report, deadline).await,
                    Err(why) => Err(why),
                }
            };
        }
    }

    /// Hands one record to the producer. No order among records is lost by that: what is not taken
    /// here was not sent.
    fn send(
        &self,
        producer: &Producer,
        topic: &str,
        lease: &Lease,
    ) -> Result<DeliveryFuture, NotReleased> {
        let message = lease.message();
        let Content::Kafka(record) = &message.content else {
            let why = "it was not captured from Kafka";
            return Err(NotReleased::Hopeless(Reason::new("undecodable", why)));
        };
        let out: FutureRecord<'_, [u8], [u8]> = FutureRecord {
            topic,
            partition: self
                .preserve_partition
                .then(|| i32::try_from(record.partition).unwrap_or(i32::MAX)),
            payload: record.value.as_deref(),
            key: record.key.as_deref(),
            timestamp: None,
            headers: Some(outgoing::headers(message, record, lease.due())),
        };
        producer.send_result(out).map_err(|(error, _)| {
            if error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull) {
                return NotReleased::Late(Reason::new("late", "the producer has no room for it"));
            }
            refusal::judge(&error, self.link.trouble().as_deref())
        })
    }

    /// Waits for a record's delivery report. The one place where a release is proven: all replicas
    /// that must have it do.
    async fn report(&self, lease: &Lease, report: DeliveryFuture, deadline: Instant) -> Outcome {
        crash::pass(Point::PublishedUnconfirmed);
        match timeout_at(deadline.into(), report).await {
            Ok(Ok(Ok(_))) => {
                self.link.is_well();
                Ok(Released::confirmed(lease.message().uid.clone()))
            }
            Ok(Ok(Err((error, _)))) => Err(refusal::judge(&error, self.link.trouble().as_deref())),
            Ok(Err(_)) => {
                let why = "the producer ended before the delivery report";
                Err(NotReleased::Waiting(Reason::new("connection", why)))
            }
            Err(_) => {
                let why = "no delivery report in time";
                Err(NotReleased::Unconfirmed(Reason::new("unconfirmed", why)))
            }
        }
    }

    /// Whether the topic stands, asked once until something goes wrong.
    async fn look(&self, topic: &str) -> Result<(), NotReleased> {
        if self.known().contains(topic) && self.link.trouble().is_none() {
            return Ok(());
        }
        let waiting = |label, why: String| NotReleased::Waiting(Reason::new(label, why));
        let metadata = self.link.metadata(Some(topic)).await;
        let metadata = metadata.map_err(|why| waiting("connection", why))?;
        let found = metadata.topics().iter().find(|found| found.name() == topic);
        match found.map(|found| (found.error(), found.partitions().len())) {
            Some((None, 1..)) => {
                self.known().insert(topic.to_owned());
                Ok(())
            }
            Some((Some(error), _)) => {
                let code = RDKafkaErrorCode::from(error);
                Err(refusal::judge(&rdkafka::error::KafkaError::MessageProduction(code), None))
            }
            _ => Err(waiting("destination", "its topic is missing".to_owned())),
        }
    }

    fn known(&self) -> MutexGuard<'_, HashSet<String>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
