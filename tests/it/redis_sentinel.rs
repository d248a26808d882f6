//! Redis behind sentinels: whoever they name is the store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use xdelay::store::Store;
use xdelay::store::redis::{RedisStore, Settings};

use super::store_contract::{message, orders, park};
use super::support::parking::Parking;
use super::support::redis::{open, settings};
use super::support::redis_sentinel::PrivateSentinels;

fn store(sentinels: &PrivateSentinels) -> Arc<RedisStore> {
    open(&settings(&sentinels.url()))
}

/// A kill of the master, with so many sentinels.
async fn a_failover_is_followed(count: u16) {
    let redis = PrivateSentinels::start(count);
    let parking = Parking::begin(store(&redis), orders());
    parking.goes_on().await;
    if count > 2 {
        redis.kill_sentinel(1);
        parking.goes_on().await;
    }
    let killed = Instant::now();
    redis.kill(1);
    redis.until_role(2, "master").await;
    parking.goes_on().await;
    // The old master comes back and believes for a while that it still is one.
    redis.start_again(1);
    redis.until_role(1, "slave").await;
    parking.goes_on().await;
    let lost = parking.end().await;
    println!("with {count} sentinels, a kill of the master lost {}", lost.len());
    let early = lost.iter().filter(|(_, acked)| *acked + Duration::from_secs(2) < killed).count();
    assert_eq!(early, 0, "only the last moment may be lost");
}

#[tokio::test]
async fn one_sentinel_is_followed() {
    a_failover_is_followed(1).await;
}

#[tokio::test]
async fn two_sentinels_are_followed() {
    a_failover_is_followed(2).await;
}

#[tokio::test]
async fn three_sentinels_are_followed_although_the_first_is_gone() {
    a_failover_is_followed(3).await;
}

#[tokio::test]
async fn a_master_that_is_told_to_hand_over_is_followed() {
    let redis = PrivateSentinels::start(1);
    let parking = Parking::begin(store(&redis), orders());
    parking.goes_on().await;
    redis.fail_over().await;
    redis.until_role(2, "master").await;
    redis.until_role(1, "slave").await;
    parking.goes_on().await;
    let lost = parking.end().await;
    println!("a failover on command lost {}", lost.len());
    // The old master answers for a while after its replica was promoted, as it knows nothing of it.
    let acked = || lost.iter().map(|(_, acked)| *acked);
    let (first, last) = (acked().min(), acked().max());
    let span = last.zip(first).map_or(Duration::ZERO, |(last, first)| last - first);
    assert!(span < Duration::from_secs(6), "it was believed for {span:?}");
}

#[tokio::test]
async fn a_name_that_no_sentinel_knows_is_said() {
    let redis = PrivateSentinels::start(1);
    let url = redis.url().replace("mymaster", "nobody");
    let store = open(&Settings { url, ..settings(&redis.url()) });
    let entry = [park(message(None, "a"), xdelay::delay::When::AtOnce)];
    let refused = store.park(&orders(), &entry).await.expect_err("no such master");
    assert!(refused.to_string().contains("`nobody`"), "{refused}");
}
