//! Everything is killed with -9 at random moments under load: nothing lost, nothing early.
//!
//! `TEST_MESSAGES` and `TEST_KILLS` make it longer, `TEST_SEED` repeats a run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lapin::types::AMQPValue;

use super::support::load::{Account, all_arrived, consume, effort, produce, produce_until, seeded};
use super::support::rabbit::{OwnNode, Rabbit, headers};
use super::support::redis::{PrivateRedis, connection};
use super::support::sidecar::Sidecar;
use super::support::{a_while, eventually_is, setting};

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
    seeded();
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let mut sidecar = Sidecar::new(&[&orders]);
    prepare(&mut sidecar);
    sidecar.set("RELEASE__LEASE", "2s");
    sidecar.start().await;
    let (url, account) = (setting("TEST_AMQP_URL"), Arc::new(Account::default()));
    let consumer = consume(&url, &orders, &account);
    let messages = effort("TEST_MESSAGES", 10_000);
    let front = format!("xdelay.{orders}");
    let producer = produce(&url, &front, &account, messages, Duration::ZERO);
    for _ in 0..effort("TEST_KILLS", 10) {
        a_while(200..1_200).await;
        sidecar.kill();
        a_while(0..300).await;
        sidecar.spawn();
    }
    producer.await.expect("produced");
    all_arrived(&account).await;
    let copies = account.settle_up();
    assert_eq!(account.confirmed(), messages);
    eprintln!("{messages} messages, {copies} copies");
    eventually_is(0.0, || async {
        sidecar.metric("xdelay_parked") + sidecar.metric("xdelay_leased")
    })
    .await;
    consumer.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_of_redis_lose_nothing() {
    seeded();
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let redis = PrivateRedis::start(&[]);
    let mut sidecar = Sidecar::new(&[&orders]);
    sidecar.set("REDIS__URL", &redis.url());
    sidecar.set("RELEASE__LEASE", "2s");
    sidecar.start().await;
    let (url, account) = (setting("TEST_AMQP_URL"), Arc::new(Account::default()));
    let consumer = consume(&url, &orders, &account);
    let messages = effort("TEST_MESSAGES", 10_000);
    let front = format!("xdelay.{orders}");
    let producer = produce(&url, &front, &account, messages, Duration::ZERO);
    for _ in 0..effort("TEST_KILLS", 10) {
        a_while(200..1_200).await;
        redis.kill();
        a_while(0..300).await;
        redis.start_again(&[]);
    }
    producer.await.expect("produced");
    all_arrived(&account).await;
    let copies = account.settle_up();
    assert_eq!(account.confirmed(), messages);
    eprintln!("{messages} messages, {copies} copies");
    sidecar.ready().await;
    consumer.abort();
}

/// With `durability = "none"` and `appendfsync everysec` messages may be lost: how many is printed.
/// What is not lost is neither early nor invented, and nothing gets stuck.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_of_redis_under_everysec_lose_what_was_asked_for() {
    seeded();
    let everysec = ["--appendfsync", "everysec"];
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let redis = PrivateRedis::start(&everysec);
    let mut sidecar = Sidecar::new(&[&orders]);
    sidecar.set("REDIS__URL", &redis.url());
    sidecar.set("REDIS__DURABILITY", "none");
    sidecar.set("RELEASE__LEASE", "2s");
    sidecar.start().await;
    let (url, account) = (setting("TEST_AMQP_URL"), Arc::new(Account::default()));
    let consumer = consume(&url, &orders, &account);
    let kills = effort("TEST_KILLS", 3);
    let end = Instant::now() + Duration::from_secs(2) * kills as u32;
    let front = format!("xdelay.{orders}");
    let produce = || produce_until(&url, &front, &account, end, Duration::ZERO);
    // So many that something is on its way to the disk whenever Redis is killed.
    let producers: Vec<_> = std::iter::repeat_with(produce).take(8).collect();
    for _ in 0..kills {
        a_while(1_000..2_500).await;
        redis.kill();
        a_while(0..300).await;
        redis.start_again(&everysec);
    }
    for producer in producers {
        producer.await.expect("produced");
    }
    sidecar.ready().await;
    eventually_is(0.0, || async { sidecar.metrics(&["xdelay_parked", "xdelay_leased"]) }).await;
    for queue in [format!("xdelay.park.{orders}"), orders.clone()] {
        eventually_is(0, || rabbit.ready(&queue)).await;
    }
    let (lost, copies) = (account.missing(), account.copies());
    let confirmed = account.confirmed();
    eprintln!("{kills} kills: {lost} of {confirmed} messages lost, {copies} copies");
    assert!(lost < confirmed);
    consumer.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_of_rabbitmq_lose_nothing() {
    seeded();
    let node = OwnNode::start();
    let rabbit = Rabbit::connect_to(&node.url()).await;
    let orders = rabbit.destination().await;
    let mut sidecar = Sidecar::new(&[&orders]);
    sidecar.set("AMQP__URL", &node.url());
    sidecar.set("RELEASE__LEASE", "4s");
    sidecar.start().await;
    let account = Arc::new(Account::default());
    let consumer = consume(&node.url(), &orders, &account);
    let messages = effort("TEST_MESSAGES", 10_000);
    let front = format!("xdelay.{orders}");
    let producer = produce(&node.url(), &front, &account, messages, Duration::from_millis(2));
    for _ in 0..effort("TEST_KILLS", 10) {
        // RabbitMQ itself forgets a quorum queue that is younger than about two seconds.
        a_while(2_500..4_000).await;
        node.kill();
        node.start_again();
    }
    producer.await.expect("produced");
    all_arrived(&account).await;
    let copies = account.settle_up();
    assert_eq!(account.confirmed(), messages);
    eprintln!("{messages} messages, {copies} copies");
    sidecar.ready().await;
    consumer.abort();
}

/// A quorum queue with a finite delivery limit throws away what crashes its consumer too often.
#[tokio::test]
async fn a_crash_loop_with_unacked_messages_loses_none() {
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let redis = PrivateRedis::start(&[]);
    let mut sidecar = Sidecar::new(&[&orders]);
    sidecar.set("REDIS__URL", &redis.url());
    sidecar.start().await;
    assert!(sidecar.stop().await);
    for n in 0..50 {
        let delay = headers([("x-delay", AMQPValue::LongInt(10))]);
        rabbit.publish(&format!("xdelay.{orders}"), delay, n.to_string().as_bytes()).await;
    }
    // Redis answers, but not durably enough: nothing may be acked.
    let append_only = |value: &'static str| {
        let url = redis.url();
        async move {
            let mut set = redis::cmd("CONFIG");
            set.arg(&["SET", "appendonly", value]);
            let mut connection = connection(&url).await;
            let _: String = set.query_async(&mut connection).await.expect("set");
        }
    };
    append_only("no").await;
    let queue = format!("xdelay.park.{orders}");
    for _ in 0..25 {
        eventually_is(50, || rabbit.ready(&queue)).await;
        sidecar.spawn();
        eventually_is(0, || rabbit.ready(&queue)).await;
        sidecar.kill();
    }
    append_only("yes").await;
    sidecar.start().await;
    let mut inbox = rabbit.consume(&orders).await;
    let mut seen = std::collections::BTreeSet::new();
    while seen.len() < 50 {
        seen.insert(inbox.next().await.data);
    }
}

#[tokio::test]
async fn a_blocked_broker_is_waited_for() {
    let node = OwnNode::start();
    let rabbit = Rabbit::connect_to(&node.url()).await;
    let orders = rabbit.destination().await;
    let mut sidecar = Sidecar::new(&[&orders]);
    sidecar.set("AMQP__URL", &node.url());
    sidecar.set("RELEASE__LEASE", "4s");
    sidecar.start().await;
    let front = format!("xdelay.{orders}");
    for n in 0..20 {
        // Long enough for all to be parked, and the broker blocked, before any is due.
        let delay = headers([("x-delay", AMQPValue::LongInt(10_000))]);
        rabbit.publish(&front, delay, n.to_string().as_bytes()).await;
    }
    eventually_is(20.0, || async { sidecar.metric("xdelay_parked") }).await;
    node.control(&["set_vm_memory_high_watermark", "0.000001"]);
    sidecar.unready_saying("blocks").await;
    assert_eq!(sidecar.metric("xdelay_dead"), 0.0);
    node.control(&["set_vm_memory_high_watermark", "0.4"]);
    let mut inbox = rabbit.consume(&orders).await;
    let mut seen = std::collections::BTreeSet::new();
    while seen.len() < 20 {
        seen.insert(inbox.next().await.data);
    }
    sidecar.ready().await;
}
