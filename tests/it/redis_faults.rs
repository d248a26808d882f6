//! What can befall a Redis: forgotten scripts, kills, an empty database, no memory, no synced file.

use std::sync::Arc;
use std::time::{Duration, Instant};

use xdelay::config::Durability;
use xdelay::delay::When;
use xdelay::store::{Error, Store};

use super::store_contract::{bodies, limit, message, orders, park, settle};
use super::support::redis::{PrivateRedis, open};
use super::support::{eventually, unique};

fn private_store(redis: &PrivateRedis) -> Arc<xdelay::store::redis::RedisStore> {
    let settings = xdelay::store::redis::Settings {
        url: redis.url(),
        namespace: unique("own"),
        buckets: 1,
        durability: Durability::Local,
        min_replicas: 0,
    };
    open(&settings)
}

#[tokio::test]
async fn redis_that_forgot_its_scripts_is_told_again() {
    let redis = PrivateRedis::start(&[]);
    let store = private_store(&redis);
    let _ = store.park(&orders(), &[park(message(None, "a"), When::At(1))]).await.expect("parked");
    let mut connection = super::support::redis::connection(&redis.url()).await;
    let flush: String =
        redis::cmd("SCRIPT").arg("FLUSH").query_async(&mut connection).await.expect("flushed");
    assert_eq!(flush, "OK");
    let _ = store.park(&orders(), &[park(message(None, "b"), When::At(2))]).await.expect("parked");
    let claim = store.claim(&orders(), limit(10)).await.expect("a claim");
    assert_eq!(bodies(&claim), ["a", "b"]);
}

#[tokio::test]
async fn redis_that_was_killed_has_everything_it_answered() {
    let redis = PrivateRedis::start(&[]);
    let store = private_store(&redis);
    let batch: Vec<_> =
        (0..100).map(|n| park(message(None, &n.to_string()), When::At(n))).collect();
    let _ = store.park(&orders(), &batch).await.expect("parked");
    redis.kill();
    let started = Instant::now();
    let away = store.claim(&orders(), limit(10)).await.expect_err("it is away");
    assert!(matches!(away, Error::Unavailable(_)), "{away}");
    assert!(started.elapsed() < Duration::from_secs(15), "a call is bounded in time");
    redis.start_again(&[]);
    let claim =
        eventually("Redis is back", || async { store.claim(&orders(), limit(500)).await.ok() });
    assert_eq!(claim.await.leases.len(), 100);
}

#[tokio::test]
async fn redis_that_was_emptied_is_noticed() {
    let redis = PrivateRedis::start(&[]);
    let store = private_store(&redis);
    let entries = || [park(message(None, "a"), When::In(60_000))];
    let _ = store.park(&orders(), &entries()).await.expect("parked");
    let second = store.park(&orders(), &entries()).await.expect("parked");
    assert!(!second.rolled_back);
    let mut connection = super::support::redis::connection(&redis.url()).await;
    let _: String = redis::cmd("FLUSHALL").query_async(&mut connection).await.expect("flushed");
    let more: Vec<_> = (0..9).map(|_| park(message(None, "b"), When::In(60_000))).collect();
    let third = store.park(&orders(), &more).await.expect("parked");
    assert!(third.rolled_back, "although the batch is larger than what was lost");
    assert!(!store.park(&orders(), &entries()).await.expect("parked").rolled_back);
}

#[tokio::test]
async fn redis_without_a_synced_file_parks_nothing_unless_told_to() {
    for (arguments, says) in [
        (vec!["--appendonly", "no"], "appendonly yes"),
        (vec!["--appendfsync", "everysec"], "appendfsync"),
    ] {
        let redis = PrivateRedis::start(&arguments);
        let store = private_store(&redis);
        let found = store.check().await;
        let bad = found.iter().find(|finding| finding.subject == "redis durability");
        let bad = bad.expect("a finding");
        if says == "appendfsync" && !bad.detail.contains(says) {
            // Redis 7.2 and later can be waited for instead.
            assert!(bad.detail.contains("WAITAOF"), "{bad}");
            continue;
        }
        assert!(bad.detail.contains(says), "{bad}");
        let entry = park(message(None, "a"), When::In(1));
        let refused = store.park(&orders(), &[entry]).await.expect_err("not durable");
        assert!(matches!(refused, Error::NotDurable(_)), "{refused}");
    }
}

#[tokio::test]
async fn redis_out_of_memory_parks_nothing_but_drains() {
    let redis = PrivateRedis::start(&[]);
    let store = private_store(&redis);
    let batch: Vec<_> = (0..50).map(|n| park(message(None, &n.to_string()), When::At(n))).collect();
    let _ = store.park(&orders(), &batch).await.expect("parked");
    let mut connection = super::support::redis::connection(&redis.url()).await;
    let set: String = redis::cmd("CONFIG")
        .arg(&["SET", "maxmemory", "1mb"])
        .query_async(&mut connection)
        .await
        .expect("set");
    assert_eq!(set, "OK");
    let entry = park(message(None, &"x".repeat(10_000)), When::In(1));
    let refused = store.park(&orders(), &[entry]).await.expect_err("out of memory");
    assert!(refused.to_string().contains("OOM"), "{refused}");
    let claim = store.claim(&orders(), limit(500)).await.expect("a claim");
    assert_eq!(claim.leases.len(), 50);
    assert_eq!(settle(&*store, claim).await, 50);
}
