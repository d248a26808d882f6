//! The steps of the stores, a batch at a time: park, claim, settle. On Redis each is one script,
//! and what is measured is the way there and back with it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput};
use tokio::runtime::Runtime;
use xdelay::broker::Broker;
use xdelay::broker::memory::MemoryBroker;
use xdelay::clock::{StoreClock, host_now};
use xdelay::config::Durability;
use xdelay::delay::When;
use xdelay::message::{Destination, Message, Uid};
use xdelay::store::embedded::EmbeddedStore;
use xdelay::store::redis::{RedisStore, Settings};
use xdelay::store::{Author, Entry, Limit, Store};

use crate::envelope::amqp;

/// Messages of one batch.
const BATCHES: [usize; 3] = [1, 20, 200];
/// Long ago: due at once.
const DUE: u64 = 1;
const BODY_BYTES: usize = 100;
const LEASE: Duration = Duration::from_secs(30);

pub(crate) fn bench(criterion: &mut Criterion) {
    let url = std::env::var("TEST_REDIS_URL")
        .expect("TEST_REDIS_URL is not set; dev/bench micro starts a Redis and sets it");
    let runtime = Runtime::new().expect("a runtime");
    let clock = || Arc::new(StoreClock::new());
    let settings = Settings {
        url,
        namespace: format!("micro-{}", host_now()),
        buckets: 1,
        durability: Durability::Local,
        min_replicas: 1,
    };
    let redis = RedisStore::new(settings, clock()).expect("a URL of Redis");
    steps(criterion, &runtime, "redis", &redis);
    let dir = tempfile::tempdir().expect("a directory");
    let embedded = EmbeddedStore::open(dir.path(), clock()).expect("a store");
    steps(criterion, &runtime, "embedded", &embedded);
}

fn steps(criterion: &mut Criterion, runtime: &Runtime, name: &str, store: &dyn Store) {
    let destination = Destination::amqp("micro");
    runtime.block_on(store.open(&destination)).expect("the store takes a destination");
    let mut group = criterion.benchmark_group(name);
    for batch in BATCHES {
        group.throughput(Throughput::Elements(batch as u64));
        for (place, step) in ["park", "claim", "settle"].into_iter().enumerate() {
            group.bench_function(BenchmarkId::new(step, batch), |bencher| {
                bencher.iter_custom(|times| {
                    let cycles = async {
                        let mut sum = Duration::ZERO;
                        for _ in 0..times {
                            sum += cycle(store, &destination, batch).await[place];
                        }
                        sum
                    };
                    runtime.block_on(cycles)
                });
            });
        }
    }
    group.finish();
}

/// Parks, claims and settles a batch, and leaves nothing behind; how long each took.
async fn cycle(store: &dyn Store, destination: &Destination, batch: usize) -> [Duration; 3] {
    let entries: Vec<Entry> = (0..batch).map(|_| entry()).collect();
    let began = Instant::now();
    let _proofs = store.park(destination, &entries).await.expect("parked");
    let parked = began.elapsed();

    let limit = Limit { messages: batch, bytes: u64::MAX / 2, lease: LEASE, alone: true };
    let began = Instant::now();
    let claim = store.claim(destination, limit).await.expect("claimed");
    let claimed = began.elapsed();
    assert_eq!(claim.leases.len(), batch, "all were due");

    let deadline = Instant::now() + LEASE;
    let broker = MemoryBroker::new(&destination.name);
    let released = broker.release(destination, &claim.leases, deadline).await;
    let released = released.into_iter().map(|one| one.expect("released"));
    let tickets = claim.leases.into_iter().map(|lease| lease.into_ticket());
    let batch: Vec<_> = tickets.zip(released).collect();
    let began = Instant::now();
    store.settle(destination, batch).await.expect("settled");
    [parked, claimed, began.elapsed()]
}

fn entry() -> Entry {
    let content = amqp(BODY_BYTES);
    let message = Message { uid: Uid::fresh(), id: None, delay_ms: Some(5_000), content };
    Entry::Park { message, when: When::At(DUE), priority: 0, by: Author::Producer }
}
