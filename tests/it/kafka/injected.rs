//! Errors that a healthy cluster does not give, from librdkafka's own mock cluster.
//!
//! It knows no configuration of topics, so xdelay is not ready on it; what is read and released
//! is the same.

use std::collections::BTreeMap;

use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use crate::support::kafka::{Kafka, text};
use crate::support::sidecar::Sidecar;
use crate::support::{eventually_is, unique};

use RDKafkaRespErr as Error;

type Mock = MockCluster<'static, DefaultProducerContext>;

/// One topic with its capture on three brokers that obey, and a sidecar.
fn stage() -> (Mock, Kafka, String, Sidecar) {
    let mock = MockCluster::new(3).expect("a cluster");
    let orders = unique("orders");
    for topic in [orders.clone(), format!("xdelay.{orders}")] {
        mock.create_topic(&topic, 3, 3).expect("created");
    }
    let kafka = Kafka::at(&mock.bootstrap_servers());
    let mut sidecar = Sidecar::for_kafka(&[&orders]);
    sidecar.set("KAFKA__BROKERS", &mock.bootstrap_servers());
    sidecar.set("RELEASE__LEASE", "6s");
    (mock, kafka, orders, sidecar)
}

/// Writes, and waits until all have arrived; answers how often each did.
async fn round(kafka: &Kafka, orders: &str, name: &str) -> BTreeMap<String, usize> {
    const COUNT: usize = 50;
    let mut inbox = kafka.read(orders);
    for n in 0..COUNT {
        kafka.write_delayed(&format!("xdelay.{orders}"), &format!("{name} {n}"), 50).await;
    }
    let mut seen = BTreeMap::new();
    while seen.len() < COUNT {
        let value = text(&inbox.next().await);
        if value.starts_with(name) {
            *seen.entry(value).or_default() += 1;
        }
    }
    seen
}

/// Runs rounds with errors on one kind of request each; nothing is lost whatever they are.
async fn with_errors(api: RDKafkaApiKey, errors: &[RDKafkaRespErr]) -> usize {
    let (mock, kafka, orders, mut sidecar) = stage();
    sidecar.spawn();
    round(&kafka, &orders, "before").await;
    mock.request_errors(api, errors);
    let seen = round(&kafka, &orders, "during").await;
    eventually_is(0.0, || async { sidecar.metrics(&["xdelay_parked", "xdelay_leased"]) }).await;
    assert_eq!(sidecar.metric("xdelay_dead"), 0.0, "none of it was a record's fault");
    seen.values().map(|times| times - 1).sum()
}

#[tokio::test]
async fn a_release_that_too_few_replicas_took_is_tried_again() {
    let few = [Error::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS; 5];
    with_errors(RDKafkaApiKey::Produce, &few).await;
    let after = [Error::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND; 3];
    with_errors(RDKafkaApiKey::Produce, &after).await;
}

#[tokio::test]
async fn a_leader_that_moved_is_followed() {
    let moved = [Error::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION; 5];
    with_errors(RDKafkaApiKey::Produce, &moved).await;
    with_errors(RDKafkaApiKey::Fetch, &moved).await;
}

#[tokio::test]
async fn a_cluster_that_cuts_connections_costs_nothing() {
    let cut = [Error::RD_KAFKA_RESP_ERR__TRANSPORT; 5];
    for api in [RDKafkaApiKey::Produce, RDKafkaApiKey::Fetch, RDKafkaApiKey::Metadata] {
        with_errors(api, &cut).await;
    }
}

/// The marks decide where reading goes on, not what the group was told.
#[tokio::test]
async fn commits_that_fail_cost_no_copy() {
    let failing = [Error::RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS; 20];
    assert_eq!(with_errors(RDKafkaApiKey::OffsetCommit, &failing).await, 0);
    let refused = [Error::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED; 20];
    assert_eq!(with_errors(RDKafkaApiKey::OffsetCommit, &refused).await, 0);
}

#[tokio::test]
async fn a_coordinator_that_is_away_is_waited_for() {
    let away = [Error::RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE; 10];
    with_errors(RDKafkaApiKey::FindCoordinator, &away).await;
    let thrown_out = [Error::RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID; 2];
    with_errors(RDKafkaApiKey::Heartbeat, &thrown_out).await;
}
