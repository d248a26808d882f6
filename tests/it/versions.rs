//! More than one version of xdelay on one store.
//!
//! `TEST_OTHER_XDELAY` names the binary of another version; `dev/two-versions` builds one and sets it.
//! Without it the present version takes over from itself.

use std::sync::Arc;
use std::time::Duration;

use lapin::types::AMQPValue;
use redis::AsyncTypedCommands;

use super::support::load::{Account, all_arrived, consume, effort, produce, seeded};
use super::support::rabbit::{Rabbit, headers};
use super::support::redis::connection;
use super::support::sidecar::Sidecar;
use super::support::{a_while, eventually, eventually_is, setting};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_versions_take_turns_and_lose_nothing() {
    seeded();
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let mut present = Sidecar::new(&[&orders]);
    present.set("RELEASE__LEASE", "2s");
    let mut other = present.twin();
    if let Ok(binary) = std::env::var("TEST_OTHER_XDELAY") {
        other.run_binary(&binary);
    }
    other.start().await;
    let (url, account) = (setting("TEST_AMQP_URL"), Arc::new(Account::default()));
    let consumer = consume(&url, &orders, &account);
    let messages = effort("TEST_MESSAGES", 1_500);
    let front = format!("xdelay.{orders}");
    let producer = produce(&url, &front, &account, messages, Duration::from_millis(1));
    // Forward, back, and forward again; both are there for a while each time.
    for _ in 0..2 {
        present.start().await;
        a_while(200..800).await;
        assert!(other.stop().await);
        a_while(200..800).await;
        other.start().await;
        a_while(200..800).await;
        present.kill();
        a_while(200..800).await;
    }
    present.start().await;
    producer.await.expect("produced");
    all_arrived(&account).await;
    let copies = account.settle_up();
    eprintln!("{messages} messages, {copies} copies");
    eventually_is(0.0, || async {
        present.metric("xdelay_parked") + present.metric("xdelay_leased")
    })
    .await;
    assert_eq!(present.metric("xdelay_dead"), 0.0);
    assert_eq!(other.metric("xdelay_rolled_back_total"), 0.0);
    consumer.abort();
}

#[tokio::test]
async fn what_a_newer_version_parked_is_left_alone() {
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let mut sidecar = Sidecar::new(&[&orders]);
    sidecar.set("RELEASE__RETRY__MAX", "1s");
    sidecar.start().await;
    let delay = headers([("x-delay", AMQPValue::LongInt(3_000))]);
    rabbit.publish(&format!("xdelay.{orders}"), delay, b"from the future").await;
    eventually_is(1.0, || async { sidecar.metric("xdelay_parked") }).await;
    let mut redis = connection(&setting("TEST_REDIS_URL")).await;
    let keys = redis.keys(format!("{}:*:msg", sidecar.setting("REDIS__NAMESPACE"))).await;
    let key = keys.expect("keys").remove(0);
    let mut all: Vec<(Vec<u8>, Vec<u8>)> =
        redis::cmd("HGETALL").arg(&key).query_async(&mut redis).await.expect("a message");
    let (uid, mut packed) = all.remove(0);
    // Eight bytes of due stand before the envelope, which begins with its version.
    let known = std::mem::replace(&mut packed[8], 200);
    let put = |packed: Vec<u8>| {
        let mut put = redis::cmd("HSET");
        put.arg(&key).arg(&uid).arg(packed);
        put
    };
    let _: i64 = put(packed.clone()).query_async(&mut redis).await.expect("written");
    eventually("it is met and put off", || async {
        let (_, text) = sidecar.get("/metrics")?;
        let line = text.lines().find(|line| line.contains("newer-version"))?;
        let times: f64 = line.rsplit(' ').next()?.parse().ok()?;
        (times >= 2.0).then_some(())
    })
    .await;
    assert_eq!(sidecar.metric("xdelay_dead"), 0.0);
    packed[8] = known;
    let _: i64 = put(packed).query_async(&mut redis).await.expect("written");
    let mut inbox = rabbit.consume(&orders).await;
    assert_eq!(inbox.next().await.data, b"from the future");
}
