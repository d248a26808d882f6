//! Redis Cluster: the promises of a store hold there too, and what can befall a cluster is survived.

use std::sync::Arc;
use std::time::Duration;

use xdelay::config::Durability;
use xdelay::finding::Grade;
use xdelay::message::Destination;
use xdelay::store::redis::{RedisStore, Settings};
use xdelay::store::{Error, Steer, Store};

use super::store_contract::{self, limit, message, orders, park};
use super::support::eventually;
use super::support::parking::Parking;
use super::support::redis::{open, settings};
use super::support::redis_cluster::PrivateCluster;

/// A key of the one bucket that a destination has.
fn key_of(destination: &Destination) -> String {
    format!("{{amqp:{}:0}}", destination.name)
}

fn store(cluster: &PrivateCluster) -> Arc<RedisStore> {
    open(&settings(&cluster.url()))
}

/// A destination whose bucket has another master than this one's.
async fn elsewhere(cluster: &PrivateCluster, than: &Destination) -> Destination {
    let (master, _) = cluster.pair_of(&key_of(than)).await;
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        let other = Destination::amqp(name);
        if cluster.pair_of(&key_of(&other)).await.0 != master {
            return other;
        }
    }
    panic!("all lie on one master");
}

#[tokio::test]
async fn a_cluster_keeps_every_promise_of_a_store() {
    let cluster = PrivateCluster::start();
    store_contract::every_promise_at(&cluster.url()).await;
    store_contract::owner::every_promise_at(&cluster.url()).await;
    store_contract::steer::every_promise_at(&cluster.url()).await;
    let sixteen = Settings { buckets: 16, ..settings(&cluster.url()) };
    store_contract::ids_stay_together_and_order_is_by_due(&sixteen).await;
    for node in 1..=3 {
        let keys: usize = cluster.ask(node, "DBSIZE").await;
        assert!(keys > 0, "every master has its share");
    }
    let found = store(&cluster).check().await;
    assert!(found.iter().all(|finding| finding.grade == Grade::Good), "{found:?}");
}

#[tokio::test]
async fn a_killed_master_is_succeeded_and_what_replicas_had_is_kept() {
    let cluster = PrivateCluster::start();
    let (master, replica) = cluster.pair_of(&key_of(&orders())).await;
    let local = Parking::begin(store(&cluster), orders());
    let replicated =
        Settings { durability: Durability::Replicas, min_replicas: 1, ..settings(&cluster.url()) };
    let replicated = Parking::begin(open(&replicated), orders());
    local.goes_on().await;
    replicated.goes_on().await;
    let scripts = cluster.info(replica, "number_of_cached_scripts").await;
    assert_eq!(scripts.as_deref(), Some("0"), "who succeeds does not know the scripts");
    let killed = std::time::Instant::now();
    cluster.kill(master);
    cluster.until_master(replica).await;
    local.goes_on().await;
    replicated.is_refused("not as durably").await;
    cluster.start_again(master);
    replicated.goes_on().await;
    assert_eq!(replicated.end().await, [], "a replica had what was acknowledged");
    let lost = local.end().await;
    println!("without waiting for replicas, a kill of the master lost {}", lost.len());
    let early = lost.iter().filter(|(_, acked)| *acked + Duration::from_secs(2) < killed).count();
    assert_eq!(early, 0, "only the last moment may be lost");
}

#[tokio::test]
async fn a_master_that_hands_over_is_followed_and_nothing_is_lost() {
    let cluster = PrivateCluster::start();
    let (_, replica) = cluster.pair_of(&key_of(&orders())).await;
    let parking = Parking::begin(store(&cluster), orders());
    parking.goes_on().await;
    let done: String = cluster.ask(replica, "CLUSTER FAILOVER").await;
    assert_eq!(done, "OK");
    cluster.until_master(replica).await;
    parking.goes_on().await;
    cluster.until_well().await;
    parking.goes_on().await;
    assert_eq!(parking.end().await, [], "a handover loses nothing");
}

#[tokio::test]
async fn a_slot_that_moves_under_load_takes_everything_along() {
    let cluster = PrivateCluster::start();
    let (from, _) = cluster.pair_of(&key_of(&orders())).await;
    let (to, slot) = (from % 3 + 1, cluster.slot(&key_of(&orders())).await);
    let parking = Parking::begin(store(&cluster), orders());
    let other = Parking::begin(store(&cluster), elsewhere(&cluster, &orders()).await);
    parking.goes_on().await;
    let (source, target) = (cluster.id(from).await, cluster.id(to).await);
    let _: () = cluster.ask(to, &format!("CLUSTER SETSLOT {slot} IMPORTING {source}")).await;
    let _: () = cluster.ask(from, &format!("CLUSTER SETSLOT {slot} MIGRATING {target}")).await;
    let keys: Vec<String> = cluster.ask(from, &format!("CLUSTER GETKEYSINSLOT {slot} 100")).await;
    assert!(keys.len() > 2, "{keys:?}");
    let port = cluster.port(to);
    for (moved, key) in keys.iter().enumerate() {
        let answer: String =
            cluster.ask(from, &format!("MIGRATE 127.0.0.1 {port} {key} 0 5000")).await;
        assert!(["OK", "NOKEY"].contains(&answer.as_str()), "{answer}");
        if moved == 1 {
            parking.is_refused("TRYAGAIN").await;
        }
    }
    other.goes_on().await;
    for node in [to, from, 6 - to - from] {
        let _: () = cluster.ask(node, &format!("CLUSTER SETSLOT {slot} NODE {target}")).await;
    }
    parking.goes_on().await;
    assert_eq!(other.errors(), [""; 0], "other slots do not notice");
    assert_eq!(other.end().await, []);
    assert_eq!(parking.end().await, [], "everything moved along");
}

#[tokio::test]
async fn a_slot_that_nobody_serves_holds_up_its_bucket_alone() {
    let cluster = PrivateCluster::start();
    let (master, replica) = cluster.pair_of(&key_of(&orders())).await;
    let store = store(&cluster);
    let parking = Parking::begin(Arc::clone(&store) as Arc<dyn Steer>, orders());
    let other = elsewhere(&cluster, &orders()).await;
    let other = Parking::begin(Arc::clone(&store) as Arc<dyn Steer>, other);
    parking.goes_on().await;
    cluster.kill(replica);
    cluster.kill(master);
    other.goes_on().await;
    let away =
        eventually("the bucket is away", || async { store.claim(&orders(), limit(1)).await.err() });
    assert!(matches!(away.await, Error::Unavailable(_)));
    other.goes_on().await;
    cluster.start_again(master);
    cluster.start_again(replica);
    parking.goes_on().await;
    cluster.until_well().await;
    assert_eq!(parking.end().await, [], "it was synced to the disk of its master");
    assert_eq!(other.end().await, []);

    // One that was taken from its master and given to nobody.
    let slot = cluster.slot(&key_of(&Destination::amqp("nobody"))).await;
    for node in cluster.nodes() {
        let _: Result<(), _> = cluster.try_ask(node, &format!("CLUSTER DELSLOTS {slot}")).await;
    }
    let entry = [park(message(None, "x"), xdelay::delay::When::AtOnce)];
    let nobody = Destination::amqp("nobody");
    let refused = store.park(&nobody, &entry).await.expect_err("nobody has it");
    assert!(matches!(refused, Error::Unavailable(_)), "{refused}");
    println!("{refused}");
    let (owner, _) = cluster.pair_of(&key_of(&nobody)).await;
    let _: () = cluster.ask(owner, &format!("CLUSTER ADDSLOTS {slot}")).await;
    let parked =
        eventually("somebody has it again", || async { store.park(&nobody, &entry).await.ok() });
    let _ = parked.await;
}
