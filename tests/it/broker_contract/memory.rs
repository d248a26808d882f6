//! The contract on the broker in memory.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use xdelay::broker::Broker;
use xdelay::broker::memory::{MemoryBroker, Published};
use xdelay::delay::{When, Wish};
use xdelay::message::Destination;

use super::Fixture;

struct Memory(MemoryBroker);

#[async_trait]
impl Fixture for Memory {
    fn broker(&self) -> Arc<dyn Broker> {
        Arc::new(self.0.clone())
    }

    fn destination(&self) -> Destination {
        Destination::amqp("orders")
    }

    async fn publish(&self, body: &str, delay_ms: u64) {
        let body = Bytes::copy_from_slice(body.as_bytes());
        let wish = Ok(Wish::Hold(When::In(delay_ms), None));
        self.0.publish(Published { body, wish, priority: 0 });
    }

    async fn received(&self) -> Vec<String> {
        let received = self.0.received();
        received.iter().map(|m| String::from_utf8_lossy(&m.body).into_owned()).collect()
    }
}

fn fixture() -> Memory {
    Memory(MemoryBroker::new("orders"))
}

#[tokio::test]
async fn captures_in_order() {
    super::captures_in_order(&fixture()).await;
}

#[tokio::test]
async fn redelivers_what_is_not_acked() {
    super::redelivers_what_is_not_acked(&fixture()).await;
}

#[tokio::test]
async fn releases_in_order() {
    super::releases_in_order(&fixture()).await;
}

#[tokio::test]
async fn stops_in_order() {
    super::stops_in_order(&fixture()).await;
}
