//! AMQP without lapin: connections as bytes and frames, and a consumer for messages that lapin
//! cannot decode.
//!
//! AMQP says that header names and short strings are UTF-8; RabbitMQ does not check it, so it
//! accepts and delivers messages where they are not. lapin answers such a delivery by closing its
//! whole connection, the broker returns the message to the queue, and the next connection meets it
//! again: one message stops the queue for ever. This consumer leaves the bytes of a message as they
//! are, so that such a message can be seen, kept elsewhere and acknowledged.
//!
//! The consumer is a tool for one short visit to one queue, not a second client: one connection, one channel,
//! one consumer, no reconnecting. The contract:
//! - every wait for the broker is bounded, and any error means: drop the consumer, whatever was not
//!   acknowledged goes back to the queue;
//! - heartbeats are sent only from within these calls, so between two of them the caller stays well
//!   under the heartbeat interval (the broker closes the connection after two of those);
//! - [`next`](RawConsumer::next) may be cancelled at any time without losing a byte.

mod delivery;
mod error;
mod frames;
mod handshake;
mod identity;
mod nesting;
mod session;
#[cfg(test)]
mod tests;

use std::time::Duration;

use amq_protocol::protocol::{AMQPClass, basic, channel, constants};

pub(super) use delivery::RawDelivery;
pub(super) use error::RawError;
pub(super) use frames::{FrameReader, RawFrame, encode};
pub(super) use identity::{Identity, identify};

use super::node::Node;
use delivery::Assembly;
use handshake::short;
pub(super) use session::Opened;
use session::{CHANNEL, Incoming, Session, from_now};

/// Shown by the broker's tools next to the queue, so that an operator can tell this visit from the
/// usual consumer.
const CONSUMER_TAG: &str = "xdelay-undecodable";

/// Connects as `node` says, for whoever reads and writes the frames by himself. `timeout` bounds
/// the whole call.
pub(super) async fn open(
    node: &Node,
    name: &str,
    channel_max: u16,
    timeout: Duration,
) -> Result<Opened, RawError> {
    let opening = async {
        let (session, agreed) = handshake::open(node, name, channel_max, timeout).await?;
        Ok(session.hand_over(agreed.channel_max))
    };
    tokio::time::timeout(timeout, opening).await.map_err(|_| RawError::Timeout("connecting"))?
}

pub(super) struct RawConsumer {
    session: Session,
    assembly: Assembly,
    timeout: Duration,
}

impl RawConsumer {
    /// Connects as `node` says and starts to consume `queue` with manual acknowledgement.
    ///
    /// `timeout` bounds this whole call and later each single wait. At most `prefetch` messages
    /// (never 0, which would mean all of the queue) are unacknowledged at a time: the caller can
    /// look only that far past the messages it leaves alone.
    pub(super) async fn open(
        node: &Node,
        name: &str,
        queue: &str,
        prefetch: u16,
        timeout: Duration,
    ) -> Result<Self, RawError> {
        let opening = async {
            let (session, _) = handshake::open(node, name, 1, timeout).await?;
            let consumer = Self { session, assembly: Assembly::default(), timeout };
            consumer.subscribe(queue, prefetch).await
        };
        tokio::time::timeout(timeout, opening)
            .await
            .map_err(|_| RawError::Timeout("opening a consumer"))?
    }

    async fn subscribe(mut self, queue: &str, prefetch: u16) -> Result<Self, RawError> {
        let qos = basic::Qos { prefetch_count: prefetch.max(1), global: false };
        let consume = basic::Consume {
            queue: short(queue, "queue name")?,
            consumer_tag: CONSUMER_TAG.into(),
            ..basic::Consume::default()
        };
        for request in [
            AMQPClass::Channel(channel::AMQPMethod::Open(channel::Open {})),
            AMQPClass::Basic(basic::AMQPMethod::Qos(qos)),
            AMQPClass::Basic(basic::AMQPMethod::Consume(consume)),
        ] {
            self.session.call(CHANNEL, request).await?;
        }
        Ok(self)
    }

    /// The next delivery, or `None` when none came for `quiet`.
    ///
    /// Once a message has begun to arrive, its rest is waited for (with the consumer's own timeout
    /// from frame to frame), however short `quiet` is: `None` is never said in the middle of one.
    pub(super) async fn next(&mut self, quiet: Duration) -> Result<Option<RawDelivery>, RawError> {
        let mut until = from_now(quiet);
        loop {
            if !self.assembly.is_idle() {
                until = from_now(self.timeout);
            }
            match self.session.next(until).await? {
                Some(Incoming::Content(frame)) => {
                    if let Some(delivery) = self.assembly.feed(&frame)? {
                        return Ok(Some(delivery));
                    }
                }
                Some(Incoming::Method(method)) => {
                    return Err(RawError::unexpected("a delivery", &method));
                }
                None if self.assembly.is_idle() => return Ok(None),
                None => return Err(RawError::Timeout("the rest of a delivery")),
            }
        }
    }

    /// Acknowledges the one delivery with this tag.
    ///
    /// The broker answers nothing to it; only a [`close`](Self::close) that went well says that it
    /// was carried out. Cancelled, the acknowledgement is still sent by the next call.
    pub(super) async fn ack(&mut self, tag: u64) -> Result<(), RawError> {
        let ack = basic::Ack { delivery_tag: tag, multiple: false };
        let ack = AMQPClass::Basic(basic::AMQPMethod::Ack(ack));
        self.session.send(CHANNEL, ack)?;
        self.session.flush().await
    }

    /// Closes channel and connection; every delivery not acknowledged returns to the queue.
    ///
    /// The channel first: its answer comes after the broker has handled the acknowledgements sent
    /// before it.
    pub(super) async fn close(mut self) -> Result<(), RawError> {
        let from_channel = channel::Close {
            reply_code: constants::REPLY_SUCCESS,
            reply_text: "done".into(),
            ..channel::Close::default()
        };
        let closing = async {
            let request = AMQPClass::Channel(channel::AMQPMethod::Close(from_channel));
            self.session.call(CHANNEL, request).await?;
            self.session.close_connection().await
        };
        tokio::time::timeout(self.timeout, closing)
            .await
            .map_err(|_| RawError::Timeout("closing"))?
    }
}
