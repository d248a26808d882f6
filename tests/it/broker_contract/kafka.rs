//! The contract on Kafka.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Mutex;
use xdelay::broker::Broker;
use xdelay::broker::kafka::KafkaBroker;
use xdelay::config::{Config, Sources};
use xdelay::health::Health;
use xdelay::message::Destination;
use xdelay::metrics::Metrics;
use xdelay::store::Store;

use super::Fixture;
use crate::support::kafka::{Inbox, Kafka, text};
use crate::support::redis::store;
use crate::support::setting;

struct OnKafka {
    kafka: Kafka,
    topic: String,
    store: Arc<dyn Store>,
    inbox: Mutex<(Inbox, Vec<String>)>,
}

impl OnKafka {
    async fn new() -> Self {
        let kafka = Kafka::shared();
        let topic = kafka.destination(1).await;
        let inbox = Mutex::new((kafka.read(&topic), Vec::new()));
        Self { kafka, topic, store: store().0, inbox }
    }
}

#[async_trait]
impl Fixture for OnKafka {
    fn broker(&self) -> Arc<dyn Broker> {
        let set = [
            ("XDELAY_REDIS__URL", setting("TEST_REDIS_URL")),
            ("XDELAY_KAFKA__BROKERS", self.kafka.brokers().to_owned()),
            ("XDELAY_KAFKA__TOPICS", self.topic.clone()),
            ("XDELAY_KAFKA__GROUP", format!("xdelay of {}", self.topic)),
        ];
        let env: BTreeMap<_, _> = set.map(|(name, value)| (name.to_owned(), value)).into();
        let config = Config::load(Sources { file: None, env, overrides: Vec::new() });
        let (health, metrics) = (Arc::new(Health::default()), Arc::new(Metrics::default()));
        let store = Arc::clone(&self.store);
        let config = config.expect("valid");
        let broker = KafkaBroker::new(&config, store, Arc::default(), &health, &metrics);
        Arc::new(broker.expect("usable"))
    }

    fn destination(&self) -> Destination {
        Destination::kafka(&self.topic)
    }

    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    async fn publish(&self, body: &str, delay_ms: u64) {
        self.kafka.write_delayed(&format!("xdelay.{}", self.topic), body, delay_ms).await;
    }

    async fn received(&self) -> Vec<String> {
        let mut inbox = self.inbox.lock().await;
        while let Some(got) = inbox.0.next_within(Duration::from_millis(20)).await {
            inbox.1.push(text(&got));
        }
        inbox.1.clone()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn captures_in_order() {
    super::captures_in_order(&OnKafka::new().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redelivers_what_is_not_acked() {
    super::redelivers_what_is_not_acked(&OnKafka::new().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_in_order() {
    super::releases_in_order(&OnKafka::new().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stops_in_order() {
    super::stops_in_order(&OnKafka::new().await).await;
}
