//! A broker in memory, for tests that need a fault at an exact moment.
//!
//! It behaves as the seam promises, and passes the same contract suite as the real one: what is
//! not acked is delivered again to the next intake, acks take effect in order, a release that is
//! answered with a proof has arrived. On top of that it can be told what to answer.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::Notify;

use super::{Broker, Delivery, Intake, Ledger, NotReleased, Receipt, Released};
use crate::delay::Wish;
use crate::finding::Finding;
use crate::message::{AmqpContent, BrokerKind, Content, Destination, Reason, Uid};
use crate::store::Lease;

/// A message as a test publishes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// Its body, by which a test knows it.
    pub body: Bytes,
    /// What it asks for.
    pub wish: Result<Wish, Reason>,
    /// AMQP priority.
    pub priority: u8,
}

/// A message as a consumer gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The same on every copy.
    pub uid: Uid,
    /// Its body.
    pub body: Bytes,
    /// When it was due.
    pub due: u64,
}

/// The broker; clones share it.
#[derive(Clone, Debug)]
pub struct MemoryBroker {
    destination: Destination,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    inner: Mutex<Inner>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    /// Captured and not acked, by delivery number.
    unacked: BTreeMap<u64, Published>,
    /// Not handed to the current intake yet.
    ready: VecDeque<u64>,
    secured: Vec<u64>,
    next: u64,
    received: Vec<Received>,
    /// What the next releases are answered with, one for each message.
    answers: VecDeque<NotReleased>,
    /// While set, every release is answered with it.
    refusing: Option<NotReleased>,
    /// Publishes that arrive although their confirm is lost.
    lost_confirms: usize,
    /// Which intake's receipts count: those of an earlier one are void.
    intake: u64,
}

impl MemoryBroker {
    /// An empty broker that captures for `name`.
    pub fn new(name: &str) -> Self {
        Self { destination: Destination::amqp(name), state: Arc::default() }
    }

    /// Publishes to the capture exchange.
    pub fn publish(&self, published: Published) {
        let mut inner = self.inner();
        inner.next += 1;
        let number = inner.next;
        inner.unacked.insert(number, published);
        inner.ready.push_back(number);
        drop(inner);
        self.state.changed.notify_one();
    }

    /// How many captures are not acked.
    pub fn unacked(&self) -> usize {
        self.inner().unacked.len()
    }

    /// The bodies of those, in order of capture.
    pub fn unacked_bodies(&self) -> Vec<Bytes> {
        self.inner().unacked.values().map(|published| published.body.clone()).collect()
    }

    /// All that consumers got, in order.
    pub fn received(&self) -> Vec<Received> {
        self.inner().received.clone()
    }

    /// Answers the next message that is released with this.
    pub fn answer_next(&self, answer: NotReleased) {
        self.inner().answers.push_back(answer);
    }

    /// Answers every release with this, until told otherwise.
    pub fn refuse_all(&self, answer: Option<NotReleased>) {
        self.inner().refusing = answer;
    }

    /// The next so many publishes arrive, but their confirms do not.
    pub fn lose_confirms(&self, count: usize) {
        self.inner().lost_confirms = count;
    }

    /// Takes back what is not acked and delivers it to nobody, as if another replica had it now.
    pub fn take_back(&self) {
        let mut inner = self.inner();
        inner.intake += 1;
        inner.unacked.clear();
        inner.ready.clear();
        inner.secured.clear();
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.state.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Broker for MemoryBroker {
    fn kind(&self) -> BrokerKind {
        BrokerKind::Amqp
    }

    fn destinations(&self) -> Vec<Destination> {
        vec![self.destination.clone()]
    }

    async fn identity(&self) -> Result<String, String> {
        Ok("memory".into())
    }

    async fn intake(&self) -> Box<dyn Intake> {
        let mut inner = self.inner();
        // A new consumer gets everything that was not acked, in order.
        inner.ready = inner.unacked.keys().copied().collect();
        inner.secured.clear();
        inner.intake += 1;
        drop(inner);
        Box::new(MemoryIntake { broker: self.clone(), stopped: false })
    }

    async fn release(
        &self,
        _: &Destination,
        batch: &[Lease],
        _: Instant,
    ) -> Vec<Result<Released, NotReleased>> {
        let mut inner = self.inner();
        let answers = batch.iter().map(|lease| {
            if let Some(refusal) = inner.refusing.clone().or_else(|| inner.answers.pop_front()) {
                return Err(refusal);
            }
            let body = match &lease.message().content {
                Content::Amqp(AmqpContent { body, .. }) => body.clone(),
                Content::Kafka(record) => record.value.clone().unwrap_or_default(),
            };
            let uid = lease.message().uid.clone();
            let received = Received { uid: uid.clone(), body, due: lease.due() };
            inner.received.push(received);
            if inner.lost_confirms > 0 {
                inner.lost_confirms -= 1;
                return Err(NotReleased::Waiting(Reason::new("connection", "confirm lost")));
            }
            Ok(Released::confirmed(uid))
        });
        answers.collect()
    }

    async fn check(&self) -> Vec<Finding> {
        vec![Finding::good("memory", "as always")]
    }

    async fn close(&self) {}
}

/// Acks the deliveries of one intake.
#[derive(Debug)]
struct MemoryLedger {
    broker: MemoryBroker,
    intake: u64,
}

impl Ledger for MemoryLedger {
    fn secured(&self, number: u64) {
        let mut inner = self.broker.inner();
        if inner.intake != self.intake {
            return;
        }
        inner.secured.push(number);
        // In order: never past a delivery that is not safe.
        while let Some((&first, _)) = inner.unacked.first_key_value() {
            if !inner.secured.contains(&first) {
                break;
            }
            inner.unacked.remove(&first);
        }
    }

    fn is_void(&self) -> bool {
        self.broker.inner().intake != self.intake
    }
}

struct MemoryIntake {
    broker: MemoryBroker,
    stopped: bool,
}

#[async_trait]
impl Intake for MemoryIntake {
    async fn next(&mut self) -> Option<Vec<Delivery>> {
        loop {
            let batch: Vec<Delivery> = {
                let mut inner = self.broker.inner();
                let ready = std::mem::take(&mut inner.ready);
                ready.into_iter().map(|number| self.delivery(&inner, number)).collect()
            };
            if !batch.is_empty() {
                return Some(batch);
            }
            if self.stopped {
                return None;
            }
            self.broker.state.changed.notified().await;
        }
    }

    async fn stop(&mut self) {
        self.stopped = true;
    }

    async fn flush(&mut self) {}
}

impl MemoryIntake {
    fn delivery(&self, inner: &Inner, number: u64) -> Delivery {
        let published = &inner.unacked[&number];
        let uid = Uid::fresh();
        let ledger = MemoryLedger { broker: self.broker.clone(), intake: inner.intake };
        Delivery {
            destination: self.broker.destination.clone(),
            uid: uid.clone(),
            content: Content::Amqp(AmqpContent {
                routing_key: Bytes::from_static(b"key"),
                properties: Bytes::from_static(&[0, 0]),
                body: published.body.clone(),
            }),
            priority: published.priority,
            wish: published.wish.clone(),
            delay_ms: None,
            origin: None,
            receipt: Receipt::new(uid, Arc::new(ledger), number),
        }
    }
}
