//! A connection that consumes: deliveries in batches, each the bytes it came in.
//!
//! Everything that lies in the read buffer at once is one batch, and its parts are slices of that
//! buffer: nothing of a message is decoded, copied or woken for by itself. To the contract of a
//! [connection](super::connection) it adds:
//!
//! - any bytes are carried: names and texts that are not UTF-8, tables however deep;
//! - a batch is whole messages, in the order of their tags;
//! - what was delivered on a channel that has ended is not handed out: the broker has it back;
//! - what waits here is bounded by the prefetch of whoever consumes, and by nothing else.

mod channel;
mod delivery;
#[cfg(test)]
mod tests;

use amq_protocol::frame::AMQPFrameType;

pub(super) use self::channel::Tag;
use self::delivery::Assembly;
pub(super) use self::delivery::Delivered;
use super::connection::{self, Connection, Heard, RawError, RawFrame, Role};

/// One connection.
pub(super) type Subscriber = Connection<Consuming>;
/// A channel that consumes.
pub(super) type Channel = connection::Channel<Consuming>;

const BASIC_CANCEL: (u16, u16) = (60, 30);
const BASIC_DELIVER: (u16, u16) = (60, 60);

/// What a channel that consumes hears.
#[derive(Default)]
pub(super) struct Consuming {
    assembly: Assembly,
    /// What has arrived, and nobody has taken.
    arrived: Vec<Delivered>,
    /// The broker ended the consumer: its queue is gone, or goes elsewhere.
    is_cancelled: bool,
}

impl Subscriber {
    /// Opens a channel.
    ///
    /// # Errors
    /// Why the broker does not.
    pub(super) async fn channel(&self) -> Result<Channel, String> {
        self.open_channel().await
    }
}

impl Role for Consuming {
    const PIECE: usize = 64 * 1024;

    fn hear(&mut self, frame: &RawFrame) -> Result<Heard, RawError> {
        match (&frame.kind, frame.method_id()) {
            (AMQPFrameType::Method, Some(BASIC_CANCEL)) => {
                self.is_cancelled = true;
                Ok(Heard::News)
            }
            (AMQPFrameType::Method, method) if method != Some(BASIC_DELIVER) => {
                frame.method().map(Heard::Answer)
            }
            _ => Ok(match self.assembly.feed(frame)? {
                Some(delivered) => {
                    self.arrived.push(delivered);
                    Heard::News
                }
                None => Heard::Nothing,
            }),
        }
    }
}
