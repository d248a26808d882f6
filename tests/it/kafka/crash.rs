//! Everything is killed under load, and replicas come and go: nothing lost, nothing early.

use std::sync::Arc;

use crate::support::a_while;
use crate::support::kafka::{Kafka, OwnBroker, consume, produce};
use crate::support::load::{Account, all_arrived, effort, seeded};
use crate::support::redis::PrivateRedis;
use crate::support::sidecar::Sidecar;
use crate::support::{eventually_is, setting};

/// A topic under load, and the account of it.
struct Load {
    orders: String,
    account: Arc<Account>,
    consumer: tokio::task::JoinHandle<()>,
    messages: usize,
}

impl Load {
    async fn on(kafka: &Kafka) -> Self {
        seeded();
        let (orders, account) = (kafka.destination(3).await, Arc::new(Account::default()));
        let consumer = consume(kafka.brokers(), &orders, &account);
        Self { orders, account, consumer, messages: effort("TEST_MESSAGES", 5_000) }
    }

    fn produce(&self, brokers: &str) -> tokio::task::JoinHandle<()> {
        produce(brokers, &format!("xdelay.{}", self.orders), &self.account, self.messages)
    }

    /// Waits for all, and answers how many came more than once.
    async fn settle_up(self) -> usize {
        all_arrived(&self.account).await;
        assert_eq!(self.account.confirmed(), self.messages);
        let copies = self.account.settle_up();
        eprintln!("{} messages, {copies} copies", self.messages);
        self.consumer.abort();
        copies
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_of_xdelay_lose_nothing() {
    kills_of_xdelay(|_| {}).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_of_xdelay_lose_nothing_from_its_own_file() {
    let directory = tempfile::tempdir().expect("a directory");
    kills_of_xdelay(|sidecar| sidecar.park_in(directory.path())).await;
}

async fn kills_of_xdelay(prepare: impl FnOnce(&mut Sidecar)) {
    let kafka = Kafka::shared();
    let load = Load::on(&kafka).await;
    let mut sidecar = Sidecar::for_kafka(&[&load.orders]);
    prepare(&mut sidecar);
    sidecar.set("RELEASE__LEASE", "3s");
    sidecar.start().await;
    let producer = load.produce(kafka.brokers());
    for _ in 0..effort("TEST_KILLS", 5) {
        a_while(500..2_000).await;
        sidecar.kill();
        sidecar.spawn();
    }
    producer.await.expect("produced");
    load.settle_up().await;
    eventually_is(0.0, || async {
        sidecar.metric("xdelay_parked") + sidecar.metric("xdelay_leased")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_of_redis_lose_nothing() {
    let kafka = Kafka::shared();
    let load = Load::on(&kafka).await;
    let redis = PrivateRedis::start(&[]);
    let mut sidecar = Sidecar::for_kafka(&[&load.orders]);
    sidecar.set("REDIS__URL", &redis.url());
    sidecar.set("RELEASE__LEASE", "3s");
    sidecar.start().await;
    let producer = load.produce(kafka.brokers());
    for _ in 0..effort("TEST_KILLS", 5) {
        a_while(200..1_200).await;
        redis.kill();
        a_while(0..300).await;
        redis.start_again(&[]);
    }
    producer.await.expect("produced");
    load.settle_up().await;
    sidecar.ready().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_of_the_broker_lose_nothing() {
    let broker = OwnBroker::start();
    let kafka = Kafka::at(&broker.brokers());
    let load = Load::on(&kafka).await;
    let mut sidecar = Sidecar::for_kafka(&[&load.orders]);
    sidecar.set("KAFKA__BROKERS", &broker.brokers());
    sidecar.set("RELEASE__LEASE", "4s");
    sidecar.start().await;
    let producer = load.produce(kafka.brokers());
    for _ in 0..effort("TEST_KILLS", 2) {
        a_while(500..1_500).await;
        broker.kill();
        broker.start_again();
    }
    producer.await.expect("produced");
    load.settle_up().await;
    sidecar.ready().await;
}

/// Replicas join and leave about every second, in order and by force.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_come_and_go_lose_nothing() {
    let kafka = Kafka::shared();
    let load = Load::on(&kafka).await;
    let mut first = Sidecar::for_kafka(&[&load.orders]);
    first.set("RELEASE__LEASE", "3s");
    let mut others = [first.twin(), first.twin()];
    first.start().await;
    let producer = load.produce(kafka.brokers());
    for round in 0..effort("TEST_ROUNDS", 8) {
        let other = &mut others[round % 2];
        other.spawn();
        a_while(500..1_500).await;
        if round % 4 < 3 {
            other.stop().await;
        } else {
            other.kill();
        }
    }
    producer.await.expect("produced");
    load.settle_up().await;
}

/// A stop and a start is no fault: nothing comes twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orderly_rebalances_cost_no_copy() {
    let kafka = Kafka::shared();
    let load = Load::on(&kafka).await;
    let mut first = Sidecar::for_kafka(&[&load.orders]);
    let mut second = first.twin();
    first.start().await;
    let producer = load.produce(kafka.brokers());
    for _ in 0..4 {
        second.start().await;
        a_while(200..800).await;
        assert!(second.stop().await);
    }
    producer.await.expect("produced");
    assert_eq!(load.settle_up().await, 0);
}

/// A frozen replica is thrown out of the group; when it wakes it has nothing to say any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_wakes_up_late_spoils_nothing() {
    use nix::sys::signal::Signal;
    let kafka = Kafka::shared();
    let load = Load::on(&kafka).await;
    let mut first = Sidecar::for_kafka(&[&load.orders]);
    first.set("RELEASE__LEASE", "3s");
    let mut second = first.twin();
    first.start().await;
    second.start().await;
    let producer = load.produce(kafka.brokers());
    for _ in 0..2 {
        a_while(500..1_000).await;
        first.signal(Signal::SIGSTOP);
        // Longer than its session and its lease.
        a_while(6_000..7_000).await;
        first.signal(Signal::SIGCONT);
    }
    producer.await.expect("produced");
    load.settle_up().await;
    eprintln!("on {}", setting("TEST_KAFKA_NODE"));
}
