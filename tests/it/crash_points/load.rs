//! What is published in a cell: messages of every fate, as long as the cell goes on.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use lapin::options::{BasicPublishOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::AMQPValue;
use lapin::{BasicProperties, PublisherConfirm};
use tokio::task::JoinHandle;
use xdelay::shutdown::{self, Shutdown, Trigger};

use crate::support::load::Account;
use crate::support::rabbit::{Rabbit, headers, table, text};
use crate::support::unique;

/// Fewest handfuls: each has messages of every fate.
const HANDFULS: usize = 20;
/// Between two handfuls.
const PACE: Duration = Duration::from_millis(20);
/// So long that what has this delay is released by mistake or not at all.
const FOR_EVER: u64 = 3_600_000;
/// What the destination's queue is bound by.
const KEY: &str = "key";

/// A producer that goes on until it is told that it is enough.
pub struct Load {
    enough: Trigger,
    producing: JoinHandle<BTreeSet<String>>,
}

/// A destination whose queue gets what has the right routing key; nobody gets the rest.
pub async fn destination(rabbit: &Rabbit) -> String {
    let name = unique("orders");
    rabbit.declare_exchange(&name).await;
    let options = QueueDeclareOptions { durable: true, ..Default::default() };
    let queue = name.as_str();
    rabbit.channel.queue_declare(queue.into(), options, table([])).await.expect("a queue");
    let bind = QueueBindOptions::default();
    let bound = rabbit.channel.queue_bind(queue.into(), queue.into(), KEY.into(), bind, table([]));
    bound.await.expect("a binding");
    name
}

impl Load {
    /// Publishes for this destination, whose capture exchange stands already.
    pub async fn start(destination: &str, account: &Arc<Account>) -> Self {
        let (enough, told) = shutdown::channel();
        let rabbit = Rabbit::connect().await;
        let producer = Producer {
            rabbit,
            front: format!("xdelay.{destination}"),
            account: Arc::clone(account),
        };
        Self { enough, producing: tokio::spawn(producer.run(told)) }
    }

    /// Publishes the rest, and answers the ids of what has nowhere to go.
    pub async fn end(self) -> BTreeSet<String> {
        self.enough.stop();
        self.producing.await.expect("produced")
    }
}

struct Producer {
    rabbit: Rabbit,
    front: String,
    account: Arc<Account>,
}

impl Producer {
    async fn run(self, enough: Shutdown) -> BTreeSet<String> {
        let mut nowhere = BTreeSet::new();
        for handful in 0.. {
            if handful >= HANDFULS && enough.is_requested() {
                break;
            }
            nowhere.insert(self.publish_handful(handful).await);
            tokio::time::sleep(PACE).await;
        }
        nowhere
    }

    /// Plain ones, a replaced one, two that are cancelled, and one that no queue wants, whose id
    /// is answered.
    async fn publish_handful(&self, n: usize) -> String {
        let mut confirms = Vec::new();
        let mut wanted = Vec::new();
        for which in 0..6 {
            let (name, delay) = (format!("{n}.plain.{which}"), fastrand::u64(1..1_500));
            confirms.push(self.expected(&name, delay, None).await);
            wanted.push(name);
        }
        // The account knows nothing of those that must never arrive: they would be inventions.
        let id = format!("{n}.moved");
        confirms.push(self.publish(KEY, "moved away", FOR_EVER, Some(&id)).await);
        confirms.push(self.expected(&id, fastrand::u64(1..1_500), Some(&id)).await);
        wanted.push(id);
        let id = format!("{n}.cancelled");
        confirms.push(self.publish(KEY, &id, FOR_EVER, Some(&id)).await);
        confirms.push(self.cancel(&id).await);
        // Whether this one arrives is a matter of who was first.
        let id = format!("{n}.raced");
        confirms.push(self.expected(&id, fastrand::u64(1..500), Some(&id)).await);
        confirms.push(self.cancel(&id).await);
        let nowhere = format!("{n}.nowhere");
        let delay = fastrand::u64(1..500);
        confirms.push(self.publish("nowhere", &nowhere, delay, Some(&nowhere)).await);
        for confirm in confirms {
            let confirm = confirm.await.expect("confirmed");
            assert!(confirm.is_ack() && confirm.take_message().is_none(), "it came back");
        }
        wanted.into_iter().for_each(|name| self.account.confirm(name));
        nowhere
    }

    async fn expected(&self, name: &str, delay: u64, id: Option<&str>) -> PublisherConfirm {
        self.account.try_one(name, delay);
        self.publish(KEY, name, delay, id).await
    }

    async fn cancel(&self, id: &str) -> PublisherConfirm {
        let properties = headers([("x-delay-cancel", text(id))]);
        self.send(KEY, "a cancel", properties).await
    }

    async fn publish(
        &self,
        key: &str,
        body: &str,
        delay: u64,
        id: Option<&str>,
    ) -> PublisherConfirm {
        let delay = AMQPValue::LongLongInt(i64::try_from(delay).expect("in range"));
        let properties = match id {
            Some(id) => headers([("x-delay", delay), ("x-delay-id", text(id))]),
            None => headers([("x-delay", delay)]),
        };
        self.send(key, body, properties).await
    }

    async fn send(&self, key: &str, body: &str, properties: BasicProperties) -> PublisherConfirm {
        let options = BasicPublishOptions { mandatory: true, immediate: false };
        let front = self.front.as_str().into();
        let publish = self.rabbit.channel.basic_publish(
            front,
            key.into(),
            options,
            body.as_bytes(),
            properties,
        );
        publish.await.expect("published")
    }
}
