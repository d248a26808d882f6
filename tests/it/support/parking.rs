//! Parks one batch after another, as an intake does, and remembers what was acknowledged when.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use xdelay::delay::When;
use xdelay::message::{Destination, Uid};
use xdelay::store::{Error, Limit, Steer};

use super::{PATIENCE, eventually};
use crate::store_contract::{message, park};

const BATCH: usize = 20;

/// Goes on in the background until [`end`](Parking::end).
pub struct Parking {
    store: Arc<dyn Steer>,
    destination: Destination,
    ends: Arc<AtomicBool>,
    seen: Arc<std::sync::Mutex<Seen>>,
    task: JoinHandle<()>,
}

#[derive(Default)]
pub struct Seen {
    pub acked: Vec<(Uid, Instant)>,
    pub errors: Vec<String>,
}

impl Parking {
    pub fn begin(store: Arc<dyn Steer>, destination: Destination) -> Self {
        let (ends, seen) = (Arc::<AtomicBool>::default(), Arc::default());
        let task = tokio::spawn(work(
            Arc::clone(&store),
            destination.clone(),
            Arc::clone(&ends),
            Arc::clone(&seen),
        ));
        Self { store, destination, ends, seen, task }
    }

    pub fn errors(&self) -> Vec<String> {
        self.seen.lock().expect("no panic").errors.clone()
    }

    fn acked(&self) -> usize {
        self.seen.lock().expect("no panic").acked.len()
    }

    /// Waits until ten more batches were acknowledged.
    pub async fn goes_on(&self) {
        let goal = self.acked() + 10 * BATCH;
        eventually("parks are acknowledged", || async { (self.acked() >= goal).then_some(()) })
            .await;
    }

    /// Waits until one was refused with these words.
    pub async fn is_refused(&self, with: &str) {
        eventually(&format!("a park is refused with {with}"), || async {
            self.errors().iter().any(|error| error.contains(with)).then_some(())
        })
        .await;
    }

    /// Ends it, and gives what was acknowledged and is not there any more.
    pub async fn end(self) -> Vec<(Uid, Instant)> {
        self.ends.store(true, Ordering::Relaxed);
        self.task.await.expect("it parked to its end");
        let there = claim_all(&*self.store, &self.destination).await;
        let seen = std::mem::take(&mut *self.seen.lock().expect("no panic"));
        eprintln!(
            "{}: {} parked, {} refusals: {:?}",
            self.destination,
            seen.acked.len(),
            seen.errors.len(),
            seen.errors.iter().collect::<HashSet<_>>()
        );
        seen.acked.into_iter().filter(|(uid, _)| !there.contains(uid)).collect()
    }
}

async fn work(
    store: Arc<dyn Steer>,
    destination: Destination,
    ends: Arc<AtomicBool>,
    seen: Arc<std::sync::Mutex<Seen>>,
) {
    while !ends.load(Ordering::Relaxed) {
        let batch: Vec<_> =
            (0..BATCH).map(|n| park(message(None, &n.to_string()), When::At(1))).collect();
        let begun = Instant::now();
        while let Err(error) = store.park(&destination, &batch).await {
            assert!(begun.elapsed() < PATIENCE, "a batch never got through: {error}");
            assert!(
                matches!(error, Error::Unavailable(_) | Error::NotDurable(_)),
                "never a message's fault: {error:?}"
            );
            seen.lock().expect("no panic").errors.push(error.to_string());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let now = Instant::now();
        let uids = batch.iter().map(|entry| (entry.uid().clone(), now));
        seen.lock().expect("no panic").acked.extend(uids);
    }
}

/// Claims everything, each exactly once.
async fn claim_all(store: &dyn Steer, destination: &Destination) -> HashSet<Uid> {
    let limit =
        Limit { messages: 500, bytes: 8 << 20, lease: Duration::from_secs(300), alone: true };
    let mut found = HashSet::new();
    loop {
        let claim = eventually("the store answers", || async {
            store.claim(destination, limit).await.ok()
        })
        .await;
        if claim.is_empty() {
            return found;
        }
        for lease in claim.leases {
            assert!(found.insert(lease.message().uid.clone()), "claimed twice");
        }
    }
}
