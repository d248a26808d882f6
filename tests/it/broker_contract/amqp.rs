//! The contract on RabbitMQ.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lapin::types::AMQPValue;
use tokio::sync::Mutex;
use xdelay::broker::Broker;
use xdelay::broker::amqp::AmqpBroker;
use xdelay::clock::StoreClock;
use xdelay::config::{Config, Sources};
use xdelay::health::Health;
use xdelay::message::Destination;
use xdelay::metrics::Metrics;
use xdelay::store::Store;

use super::Fixture;
use crate::support::rabbit::{Inbox, Rabbit, headers};
use crate::support::redis::store;
use crate::support::{eventually, setting};

struct RabbitMq {
    rabbit: Rabbit,
    exchange: String,
    store: Arc<dyn Store>,
    inbox: Mutex<(Inbox, Vec<String>)>,
}

impl RabbitMq {
    async fn new() -> Self {
        let rabbit = Rabbit::connect().await;
        let exchange = rabbit.destination().await;
        let inbox = Mutex::new((rabbit.consume(&exchange).await, Vec::new()));
        Self { rabbit, exchange, store: store().0, inbox }
    }
}

#[async_trait]
impl Fixture for RabbitMq {
    fn broker(&self) -> Arc<dyn Broker> {
        let set = [
            ("XDELAY_REDIS__URL", setting("TEST_REDIS_URL")),
            ("XDELAY_AMQP__URL", setting("TEST_AMQP_URL")),
            ("XDELAY_AMQP__EXCHANGES", self.exchange.clone()),
        ];
        let env: BTreeMap<_, _> = set.map(|(name, value)| (name.to_owned(), value)).into();
        let file = None;
        let config = Config::load(Sources { file, env, overrides: Vec::new() }).expect("valid");
        let (health, metrics) = (Arc::new(Health::default()), Arc::new(Metrics::default()));
        let (store, clock) = (Arc::clone(&self.store), Arc::new(StoreClock::new()));
        Arc::new(AmqpBroker::new(&config, store, clock, &health, &metrics))
    }

    fn destination(&self) -> Destination {
        Destination::amqp(&self.exchange)
    }

    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    async fn publish(&self, body: &str, delay_ms: u64) {
        let front = format!("xdelay.{}", self.exchange);
        // The adapter declares everything before it begins to consume.
        let queue = format!("xdelay.park.{}", self.exchange);
        eventually("the capture queue is consumed", || async {
            (self.rabbit.consumers(&queue).await > 0).then_some(())
        })
        .await;
        let delay = AMQPValue::LongLongInt(i64::try_from(delay_ms).expect("in range"));
        self.rabbit.publish(&front, headers([("x-delay", delay)]), body.as_bytes()).await;
    }

    async fn received(&self) -> Vec<String> {
        let mut inbox = self.inbox.lock().await;
        while let Some(got) = inbox.0.next_within(Duration::from_millis(20)).await {
            let body = String::from_utf8_lossy(&got.data).into_owned();
            inbox.1.push(body);
        }
        inbox.1.clone()
    }
}

#[tokio::test]
async fn captures_in_order() {
    super::captures_in_order(&RabbitMq::new().await).await;
}

#[tokio::test]
async fn redelivers_what_is_not_acked() {
    super::redelivers_what_is_not_acked(&RabbitMq::new().await).await;
}

#[tokio::test]
async fn releases_in_order() {
    super::releases_in_order(&RabbitMq::new().await).await;
}

#[tokio::test]
async fn stops_in_order() {
    super::stops_in_order(&RabbitMq::new().await).await;
}
