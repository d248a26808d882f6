//! Consuming, taking what was delivered, and acking it.

use amq_protocol::frame::AMQPFrame;
use amq_protocol::protocol::{AMQPClass, basic};
use amq_protocol::types::ShortString;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::{Channel, Consuming, Delivered};
use crate::broker::amqp::connection::encode;
use crate::broker::amqp::link::ANSWER_WITHIN;

/// The name of a consumer on its channel.
pub(in super::super) type Tag = ShortString;

impl Channel {
    /// Lets the consumers that begin from now on have so many messages unacked. Asked again, it
    /// changes nothing, and only tells that the channel is still there.
    ///
    /// # Errors
    /// Why the broker did not answer.
    pub(in super::super) async fn qos(&self, prefetch: u16) -> Result<(), String> {
        let qos = basic::Qos { prefetch_count: prefetch, global: false };
        let qos = AMQPClass::Basic(basic::AMQPMethod::Qos(qos));
        self.call("basic.qos", qos).await.map(drop)
    }

    /// Begins to consume a queue, to be acked.
    ///
    /// # Errors
    /// Why the broker does not let us.
    pub(in super::super) async fn consume(&self, queue: &str) -> Result<Tag, String> {
        let queue = ShortString::try_new(queue).map_err(|error| error.to_string())?;
        let consume = basic::Consume { queue, ..basic::Consume::default() };
        let consume = AMQPClass::Basic(basic::AMQPMethod::Consume(consume));
        match self.call("basic.consume", consume).await? {
            AMQPClass::Basic(basic::AMQPMethod::ConsumeOk(ok)) => Ok(ok.consumer_tag),
            other => Err(format!("basic.consume: answered by {other:?}")),
        }
    }

    /// Ends a consumer; what it was delivered by then can still be taken and acked.
    ///
    /// # Errors
    /// Why the broker did not answer.
    pub(in super::super) async fn cancel(&self, consumer: &Tag) -> Result<(), String> {
        let cancel = basic::Cancel { consumer_tag: consumer.clone(), nowait: false };
        let cancel = AMQPClass::Basic(basic::AMQPMethod::Cancel(cancel));
        self.call("basic.cancel", cancel).await.map(drop)
    }

    /// All that has arrived since the last call; waits until something has. Cancel-safe.
    ///
    /// # Errors
    /// Why nothing will come any more.
    pub(in super::super) async fn delivered(&self) -> Result<Vec<Delivered>, String> {
        let taken = self.state().wait(|inner| {
            // Once the channel has ended, the broker has it all back.
            let Consuming { arrived, is_cancelled, .. } = &mut inner.role;
            match &inner.end {
                Some(_) => None,
                None if !arrived.is_empty() => Some(Some(std::mem::take(arrived))),
                None => is_cancelled.then_some(None),
            }
        });
        match taken.await {
            Some(Some(arrived)) => Ok(arrived),
            Some(None) => Err("the broker cancelled the consumer".to_owned()),
            None => Err(self.state().why_over()),
        }
    }

    /// What has arrived and was not taken, without waiting.
    pub(in super::super) fn left(&self) -> Vec<Delivered> {
        std::mem::take(&mut self.state().inner().role.arrived)
    }

    /// Acks everything up to this delivery. When it returns, that is written.
    ///
    /// # Errors
    /// Why it could not be written.
    pub(in super::super) async fn ack(&self, tag: u64) -> Result<(), String> {
        let ack = basic::Ack { delivery_tag: tag, multiple: true };
        let ack = AMQPClass::Basic(basic::AMQPMethod::Ack(ack));
        let ack = encode(&AMQPFrame::Method(self.number(), ack)).map_err(|e| e.to_string())?;
        let writing = async {
            let (written, when_written) = oneshot::channel();
            let _ = self.send(ack, Some(written)).await;
            when_written.await.map_err(|_| format!("acking: {}", self.state().why_over()))
        };
        let late = || format!("acking: no answer in {} s", ANSWER_WITHIN.as_secs());
        timeout(ANSWER_WITHIN, writing).await.map_err(|_| late())?
    }
}
