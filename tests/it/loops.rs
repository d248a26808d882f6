//! Intake, release and recover, between a real store and a broker that fails at exact moments.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Semaphore;
use xdelay::broker::memory::{MemoryBroker, Published};
use xdelay::broker::{Broker, NotReleased};
use xdelay::clock::StoreClock;
use xdelay::config::{OnInvalid, OnUnroutable, Release, Retry};
use xdelay::delay::{When, Wish};
use xdelay::destinations::Destinations;
use xdelay::finding::{Finding, Grade};
use xdelay::health::Health;
use xdelay::intake::IntakeLoop;
use xdelay::message::{Destination, ProducerId, Reason};
use xdelay::metrics::Metrics;
use xdelay::recover::RecoverLoop;
use xdelay::release::{Limiter, ReleaseLoop, Shared};
use xdelay::shutdown::{self, Trigger};
use xdelay::store::redis::{RedisStore, Settings};
use xdelay::store::{Census, Store};

use super::support::eventually_is;
use super::support::redis::{PrivateRedis, open, settings, store};

/// A whole replica, in this process.
struct Replica {
    broker: MemoryBroker,
    store: Arc<RedisStore>,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    stop: Trigger,
    tasks: tokio::task::JoinSet<()>,
}

fn release_settings() -> Release {
    Release {
        batch: 50,
        lease: Duration::from_secs(2),
        max_in_flight: 500,
        rate_limit: None,
        on_unroutable: OnUnroutable::Retry,
        dead_max: None,
        retry: Retry {
            first: Duration::from_millis(20),
            max: Duration::from_millis(100),
            attempts: 4,
        },
    }
}

impl Replica {
    async fn start(broker: &MemoryBroker, settings: &Settings) -> Self {
        Self::start_with(broker, settings, release_settings()).await
    }

    async fn start_with(broker: &MemoryBroker, settings: &Settings, release: Release) -> Self {
        let store = open(settings);
        let health = Arc::new(Health::default());
        let metrics = Arc::new(Metrics::default());
        let seam: Arc<dyn Broker> = Arc::new(broker.clone());
        let destinations = Arc::new(Destinations::new(Arc::clone(&store) as _));
        let orders = Destination::amqp("orders");
        let alarm = destinations.open(&orders).await.expect("opened");
        let (stop, shutdown) = shutdown::channel();
        let mut tasks = tokio::task::JoinSet::new();
        let lease = release.lease;
        let shared = Shared {
            broker: Arc::clone(&seam),
            store: Arc::clone(&store) as _,
            in_flight: Arc::new(Semaphore::new(release.max_in_flight)),
            limiter: Arc::new(Limiter::new(release.rate_limit)),
            settings: release,
            claim_bytes: 1 << 20,
            clock: Arc::new(StoreClock::new()),
            health: Arc::clone(&health),
        };
        let of = metrics.of(&orders);
        let releasing = ReleaseLoop::new(Arc::new(shared), orders, alarm, of);
        tasks.spawn(releasing.run(shutdown.clone()));
        let recovering = RecoverLoop {
            store: Arc::clone(&store) as _,
            lease,
            destinations: Arc::clone(&destinations),
            metrics: Arc::clone(&metrics),
        };
        tasks.spawn(recovering.run(shutdown.clone()));
        let taking_in = IntakeLoop {
            broker: seam,
            store: Arc::clone(&store) as _,
            on_invalid: OnInvalid::Bury,
            destinations,
            health: Arc::clone(&health),
            metrics: Arc::clone(&metrics),
        };
        tasks.spawn(taking_in.run(shutdown));
        Self { broker: broker.clone(), store, health, metrics, stop, tasks }
    }

    async fn census(&self) -> Census {
        let census = self.store.census(&Destination::amqp("orders")).await.expect("a census");
        Census { now: 0, due_within: Default::default(), overdue: 0, ..census }
    }

    fn bodies(&self) -> Vec<String> {
        let received = self.broker.received();
        received.iter().map(|m| String::from_utf8_lossy(&m.body).into_owned()).collect()
    }

    fn complains(&self, part: &str) -> bool {
        let bad = |finding: &Finding| finding.subject == part && finding.grade == Grade::Bad;
        self.health.findings().iter().any(bad)
    }

    async fn stop(mut self) {
        self.stop.stop();
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("a loop ends in order");
        }
    }

    /// As after kill -9: nothing is finished, nothing is given back.
    fn kill(mut self) {
        self.tasks.abort_all();
    }
}

fn hold(body: &str, when: When) -> Published {
    held(body, when, None)
}

fn held(body: &str, when: When, id: Option<&str>) -> Published {
    let id = id.and_then(|id| ProducerId::new(id.as_bytes()));
    let body = Bytes::copy_from_slice(body.as_bytes());
    Published { body, wish: Ok(Wish::Hold(when, id)), priority: 0 }
}

fn nothing_left() -> Census {
    Census::default()
}

#[tokio::test]
async fn a_message_is_parked_acked_released_and_settled() {
    let (_, settings) = store();
    let broker = MemoryBroker::new("orders");
    let replica = Replica::start(&broker, &settings).await;
    broker.publish(hold("later", When::In(200)));
    broker.publish(hold("now", When::AtOnce));
    eventually_is(0, || async { broker.unacked() }).await;
    eventually_is(vec!["now".to_owned(), "later".to_owned()], || async { replica.bodies() }).await;
    eventually_is(nothing_left(), || replica.census()).await;
    replica.stop().await;
}

#[tokio::test]
async fn many_due_at_once_all_go_out_in_order() {
    let (_, settings) = store();
    let broker = MemoryBroker::new("orders");
    let expected: Vec<String> = (0..500).map(|n| n.to_string()).collect();
    for body in &expected {
        broker.publish(hold(body, When::At(1_000)));
    }
    let replica = Replica::start(&broker, &settings).await;
    eventually_is(expected, || async { replica.bodies() }).await;
    eventually_is(nothing_left(), || replica.census()).await;
    // At the first try: a batch that was forgotten would come back when its lease ran out.
    let recovered = "xdelay_recovered_total{broker=\"amqp\",destination=\"orders\"} 0";
    assert!(replica.metrics.render().contains(recovered));
    replica.stop().await;
}

#[tokio::test]
async fn a_refused_message_is_tried_again_and_buried_in_the_end() {
    let (_, settings) = store();
    let broker = MemoryBroker::new("orders");
    let refusal = NotReleased::Refused(Reason::new("unroutable", "nobody wants it"));
    broker.refuse_all(Some(refusal));
    broker.publish(hold("a", When::AtOnce));
    let replica = Replica::start(&broker, &settings).await;
    let buried = Census { dead: 1, ..Census::default() };
    eventually_is(buried, || replica.census()).await;
    let text = replica.metrics.render();
    let count =
        "xdelay_postponed_total{broker=\"amqp\",destination=\"orders\",reason=\"unroutable\"} 3";
    assert!(text.contains(count), "{text}");
    replica.stop().await;
}

#[tokio::test]
async fn a_refused_message_does_not_hold_up_its_neighbours() {
    let (_, settings) = store();
    let broker = MemoryBroker::new("orders");
    broker.answer_next(NotReleased::Refused(Reason::new("nacked", "full")));
    for body in ["a", "b", "c"] {
        broker.publish(hold(body, When::At(1_000)));
    }
    let replica = Replica::start(&broker, &settings).await;
    let expected: Vec<_> = ["b", "c", "a"].map(str::to_owned).into();
    eventually_is(expected, || async { replica.bodies() }).await;
    replica.stop().await;
}

#[tokio::test]
async fn a_message_without_a_confirm_does_not_hold_up_its_neighbours() {
    let (_, settings) = store();
    let broker = MemoryBroker::new("orders");
    let late = Reason::new("unconfirmed", "no confirm in time");
    broker.answer_next(NotReleased::Unconfirmed(late));
    for body in ["a", "b", "c"] {
        broker.publish(hold(body, When::At(1_000)));
    }
    let replica = Replica::start(&broker, &settings).await;
    let expected: Vec<_> = ["b", "c", "a"].map(str::to_owned).into();
    eventually_is(expected, || async { replica.bodies() }).await;
    assert!(replica.health.is_ready());
    replica.stop().await;
}

#[tokio::test]
async fn a_backlog_drains_with_no_more_in_flight_than_one_batch() {
    let (_, settings) = store();
    let broker = MemoryBroker::new("orders");
    for n in 0..300 {
        broker.publish(hold(&n.to_string(), When::At(1_000)));
    }
    let mut release = release_settings();
    release.max_in_flight = release.batch;
    let replica = Replica::start_with(&broker, &settings, release).await;
    eventually_is(300, || async { broker.received().len() }).await;
    eventually_is(nothing_left(), || replica.census()).await;
    replica.stop().await;
}

#[tokio::test]
async fn a_destination_that_takes_nothing_waits_and_counts_nothing() {
    let (_, settings) = store();
    let broker = MemoryBroker::new("orders");
    let away = NotReleased::Waiting(Reason::new("destination", "no exchange `orders`"));
    broker.refuse_all(Some(away));
    let replica = Replica::start(&broker, &settings).await;
    for body in ["a", "b", "c"] {
        broker.publish(hold(body, When::At(1_000)));
    }
    eventually_is(false, || async { replica.health.is_ready() }).await;
    // More probes than a message has attempts.
    let probes = || {
        let text = replica.metrics.render();
        let line = text.lines().find(|line| line.starts_with("xdelay_postponed_total"));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<u32>().ok()).unwrap_or(0)
    };
    eventually_is(true, || async { probes() > 10 }).await;
    let parked = replica.census().await;
    assert_eq!((parked.dead, parked.parked + parked.leased), (0, 3));
    broker.refuse_all(None);
    let expected: Vec<_> = ["a", "b", "c"].map(str::to_owned).into();
    eventually_is(expected, || async { replica.bodies() }).await;
    eventually_is(true, || async { replica.health.is_ready() }).await;
    eventually_is(nothing_left(), || replica.census()).await;
    replica.stop().await;
}

#[tokio::test]
async fn a_lost_confirm_costs_a_copy_with_the_same_uid_and_no_loss() {
    let (_, settings) = store();
    let broker = MemoryBroker::new("orders");
    broker.lose_confirms(1);
    broker.publish(hold("a", When::AtOnce));
    let replica = Replica::start(&broker, &settings).await;
    eventually_is(2, || async { broker.received().len() }).await;
    let received = broker.received();
    assert_eq!(received[0].uid, received[1].uid);
    eventually_is(nothing_left(), || replica.census()).await;
    replica.stop().await;
}

#[tokio::test]
async fn what_a_killed_replica_had_leased_is_released_by_another() {
    let (_, settings) = store();
    let broker = MemoryBroker::new("orders");
    let hopeless = NotReleased::Waiting(Reason::new("connection", "lost"));
    let first = Replica::start(&broker, &settings).await;
    broker.refuse_all(Some(hopeless));
    broker.publish(hold("a", When::AtOnce));
    eventually_is(0, || async { broker.unacked() }).await;
    first.kill();
    broker.refuse_all(None);
    let second = Replica::start(&broker, &settings).await;
    eventually_is(vec!["a".to_owned()], || async { second.bodies() }).await;
    eventually_is(nothing_left(), || second.census()).await;
    second.stop().await;
}

#[tokio::test]
async fn a_stopped_replica_leaves_nothing_leased() {
    let (store, settings) = store();
    let broker = MemoryBroker::new("orders");
    for n in 0..200 {
        broker.publish(hold(&n.to_string(), When::At(1_000)));
    }
    let mut release = release_settings();
    release.rate_limit = std::num::NonZeroU32::new(500);
    let replica = Replica::start_with(&broker, &settings, release).await;
    eventually_is(true, || async { broker.received().len() > 10 }).await;
    replica.stop().await;
    let census = store.census(&Destination::amqp("orders")).await.expect("a census");
    assert_eq!(census.leased, 0);
    assert_eq!(census.parked as usize + broker.received().len(), 200, "none lost, none twice");
}

#[tokio::test]
async fn a_rate_limit_bounds_the_burst() {
    let (_, settings) = store();
    let broker = MemoryBroker::new("orders");
    for n in 0..100 {
        broker.publish(hold(&n.to_string(), When::At(1_000)));
    }
    let mut release = release_settings();
    release.rate_limit = std::num::NonZeroU32::new(100);
    let started = std::time::Instant::now();
    let replica = Replica::start_with(&broker, &settings, release).await;
    eventually_is(100, || async { broker.received().len() }).await;
    assert!(started.elapsed() >= Duration::from_millis(800), "{:?}", started.elapsed());
    replica.stop().await;
}

#[tokio::test]
async fn a_cancel_behind_its_park_holds_across_a_crash_before_the_ack() {
    let (_, settings) = store();
    let broker = MemoryBroker::new("orders");
    let id = ProducerId::new(b"order-1").expect("an id");
    broker.publish(held("order-1", When::In(100), Some("order-1")));
    let cancel = Published { body: Bytes::new(), wish: Ok(Wish::Cancel(id)), priority: 0 };
    broker.publish(cancel);
    broker.publish(held("order-2", When::In(300), Some("order-2")));
    // A first intake takes everything in and is lost before any ack.
    let lost = broker.intake().await.next().await.expect("a batch");
    assert_eq!(lost.len(), 3);
    drop(lost);
    let replica = Replica::start(&broker, &settings).await;
    eventually_is(vec!["order-2".to_owned()], || async { replica.bodies() }).await;
    assert_eq!(broker.unacked(), 0);
    eventually_is(nothing_left(), || replica.census()).await;
    replica.stop().await;
}

#[tokio::test]
async fn what_the_broker_took_back_from_an_outage_leaves_the_replica_ready() {
    let redis = PrivateRedis::start(&[]);
    let broker = MemoryBroker::new("orders");
    let replica = Replica::start(&broker, &settings(&redis.url())).await;
    redis.kill();
    broker.publish(hold("a", When::AtOnce));
    eventually_is(true, || async { replica.complains("intake amqp/orders") }).await;
    broker.take_back();
    redis.start_again(&[]);
    eventually_is(true, || async { replica.health.is_ready() }).await;
    replica.stop().await;
}

#[tokio::test]
async fn what_cannot_be_read_is_buried_and_acked() {
    let (_, settings) = store();
    let broker = MemoryBroker::new("orders");
    let body = Bytes::from_static(b"odd");
    let wish = Err(Reason::new("invalid", "x-delay cannot be read"));
    broker.publish(Published { body, wish, priority: 0 });
    let replica = Replica::start(&broker, &settings).await;
    eventually_is(0, || async { broker.unacked() }).await;
    eventually_is(Census { dead: 1, ..Census::default() }, || replica.census()).await;
    assert!(broker.received().is_empty());
    replica.stop().await;
}

#[tokio::test]
async fn too_many_dead_are_said_and_no_more_are_buried_but_none_is_lost() {
    let (_, settings) = store();
    let broker = MemoryBroker::new("orders");
    broker.refuse_all(Some(NotReleased::Hopeless(Reason::new("too-large", "too large"))));
    for n in 0..5 {
        broker.publish(hold(&n.to_string(), When::AtOnce));
    }
    let mut release = release_settings();
    release.dead_max = std::num::NonZeroU32::new(3);
    let replica = Replica::start_with(&broker, &settings, release).await;
    eventually_is(3, || async { replica.census().await.dead }).await;
    eventually_is(2, || async { replica.census().await.parked }).await;
    let said = |finding: &Finding| {
        finding.subject == "dead amqp/orders" && finding.grade == Grade::Warning
    };
    assert!(replica.health.findings().iter().any(said));
    assert!(replica.health.is_ready(), "a warning is no failure");
    let metrics = replica.metrics.render();
    assert!(metrics.contains(r#"reason="dead-full"} "#), "{metrics}");
    // What comes in dead holds nothing up.
    let wish = Err(Reason::new("invalid", "x-delay cannot be read"));
    broker.publish(Published { body: Bytes::from_static(b"odd"), wish, priority: 0 });
    eventually_is(4, || async { replica.census().await.dead }).await;
    // It is mended, and what was not buried goes out by itself.
    broker.refuse_all(None);
    eventually_is(2, || async { broker.received().len() }).await;
    eventually_is(0, || async { replica.census().await.parked }).await;
    replica.stop().await;
}
