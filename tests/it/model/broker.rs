//! The broker as one replica sees it: behind a gate, and with captures for one replica at a time, as a
//! queue with a single active consumer gives them: each turn is a term of its own in the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::watch;
use xdelay::broker::memory::MemoryBroker;
use xdelay::broker::{Broker, Delivery as Capture, Intake, NotReleased, Released};
use xdelay::clock::instant;
use xdelay::finding::Finding;
use xdelay::message::{BrokerKind, Destination, Reason};
use xdelay::store::{Lease, Mark, Origin, Store};

use super::gate::{Gate, Passage};
use crate::support::body;
use crate::support::invariants::{Delivery, Event};
use crate::support::witness::{Log, Witness};

/// Who is given captures, and how often that was decided.
pub type Turn = (usize, u64);

pub struct GatedBroker {
    pub inner: MemoryBroker,
    /// Where terms begin.
    pub store: Arc<Witness>,
    pub gate: Gate,
    pub log: Arc<Log>,
    pub turn: watch::Receiver<Turn>,
}

fn unconfirmed() -> NotReleased {
    NotReleased::Unconfirmed(Reason::new("unconfirmed", "no confirm in time"))
}

fn none_of<T>(batch: &[Lease], why: &NotReleased) -> Vec<Result<T, NotReleased>> {
    batch.iter().map(|_| Err(why.clone())).collect()
}

/// Waits for what a fate demands, but answers when the deadline has come, as an adapter does.
async fn within<T>(deadline: Instant, wait: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(deadline.saturating_duration_since(instant()), wait).await.ok()
}

impl GatedBroker {
    /// Publishes, and notes what consumers got.
    async fn publish(&self, to: &Destination, batch: &[Lease], deadline: Instant) -> Outcomes {
        let before = self.inner.received().len();
        let outcomes = self.inner.release(to, batch, deadline).await;
        for got in &self.inner.received()[before..] {
            let sent = batch.iter().find(|lease| lease.message().uid == got.uid);
            let intact = sent.is_some_and(|lease| {
                body(&lease.message().content).as_bytes() == got.body && lease.due() == got.due
            });
            let in_its_place = self.inner.destinations().contains(to);
            let delivery = Delivery { due: got.due, intact, in_its_place };
            self.log.note_uid(&got.uid, Event::Delivered(delivery));
        }
        outcomes
    }
}

type Outcomes = Vec<Result<Released, NotReleased>>;

#[async_trait]
impl Broker for GatedBroker {
    fn kind(&self) -> BrokerKind {
        self.inner.kind()
    }

    fn destinations(&self) -> Vec<Destination> {
        self.inner.destinations()
    }

    async fn identity(&self) -> Result<String, String> {
        self.inner.identity().await
    }

    async fn intake(&self) -> Box<dyn Intake> {
        Box::new(GatedIntake {
            inner: None,
            broker: self.inner.clone(),
            store: Arc::clone(&self.store),
            log: Arc::clone(&self.log),
            replica: self.gate.replica,
            turn: self.turn.clone(),
            stopped: false,
        })
    }

    async fn release(&self, to: &Destination, batch: &[Lease], deadline: Instant) -> Outcomes {
        let Some((passage, fate)) = within(deadline, self.gate.enter("release")).await else {
            return none_of(batch, &unconfirmed());
        };
        if passage == Passage::Refused {
            let lost = NotReleased::Waiting(Reason::new("connection", "lost"));
            return none_of(batch, &lost);
        }
        let outcomes = self.publish(to, batch, deadline).await;
        let answered = within(deadline, self.gate.leave(fate)).await.is_some();
        if answered && passage == Passage::Made { outcomes } else { none_of(batch, &unconfirmed()) }
    }

    async fn check(&self) -> Vec<Finding> {
        self.inner.check().await
    }

    async fn close(&self) {}
}

/// One turn of one intake, and what it has in the store.
struct Term {
    turn: Turn,
    intake: Box<dyn Intake>,
    life: u32,
    /// The position after that of its last capture.
    next: u64,
}

impl Term {
    /// Takes captures from now on: whoever had them before cannot park them any more.
    async fn begin(turn: Turn, broker: &MemoryBroker, store: &Witness) -> Self {
        static LIVES: AtomicU32 = AtomicU32::new(0);
        let (intake, life) = (broker.intake().await, LIVES.fetch_add(1, Ordering::Relaxed));
        let mark = Mark { life, next: 0, stamp: None };
        for destination in broker.destinations() {
            store.set_mark(&destination, LOG, mark).await.expect("an answer");
        }
        Self { turn, intake, life, next: 0 }
    }

    fn origin(&mut self) -> Origin {
        let at = self.next;
        self.next += 1;
        Origin { log: LOG, life: self.life, from: at, at, stamp: None }
    }
}

/// The only log there is.
const LOG: u32 = 0;

struct GatedIntake {
    inner: Option<Term>,
    broker: MemoryBroker,
    store: Arc<Witness>,
    log: Arc<Log>,
    replica: usize,
    turn: watch::Receiver<Turn>,
    stopped: bool,
}

#[async_trait]
impl Intake for GatedIntake {
    async fn next(&mut self) -> Option<Vec<Capture>> {
        loop {
            let turn = *self.turn.borrow_and_update();
            if turn.0 != self.replica {
                self.inner = None;
                if self.stopped {
                    return None;
                }
                let _ = self.turn.changed().await;
                continue;
            }
            if self.inner.as_ref().is_none_or(|term| term.turn != turn) {
                let mut term = Term::begin(turn, &self.broker, &self.store).await;
                if self.stopped {
                    term.intake.stop().await;
                }
                self.inner = Some(term);
            }
            let Some(term) = &mut self.inner else { continue };
            let mut batch = tokio::select! {
                biased;
                _ = self.turn.changed() => continue,
                batch = term.intake.next() => batch?,
            };
            for capture in &mut batch {
                capture.origin = Some(term.origin());
                self.log.call(&capture.uid, body(&capture.content));
                self.log.note_uid(&capture.uid, Event::Captured);
            }
            return Some(batch);
        }
    }

    async fn stop(&mut self) {
        self.stopped = true;
        if let Some(term) = &mut self.inner {
            term.intake.stop().await;
        }
    }

    async fn flush(&mut self) {
        // Whatever was acked is told at once.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
