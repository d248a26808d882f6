//! A connection that publishes: whole batches in few large writes, and what the broker says of
//! each message of them.
//!
//! lapin keeps a future, a promise and a waker for every message, decodes and encodes its headers,
//! and hands a returned message to whichever confirm completes next. Here a batch is one list of
//! answers, properties stay the bytes they are, and a return is known by its uid. To the contract
//! of a [connection](super::connection) it adds:
//!
//! - an ack counts for a message only if the message was not returned, and RabbitMQ sends the
//!   return first (its documentation of publisher confirms says so);
//! - a batch of which not everything was heard leaves its channel unusable: what is said late
//!   cannot be taken for the next batch's.

mod channel;
mod confirms;
mod frames;
#[cfg(test)]
mod tests;

use amq_protocol::frame::AMQPFrameType;
use amq_protocol::protocol::{AMQPClass, basic, confirm};

use self::confirms::Confirms;
pub(super) use self::confirms::{Answer, Heard};
pub(super) use self::frames::fits;
use super::connection::{self, Connection, RawError, RawFrame, Role};
use super::outgoing::uid_of;
use crate::crash::{self, Point};
use crate::message::amqp::property_list::CONTENT_FIXED;

/// One connection.
pub(super) type Publisher = Connection<Confirming>;
/// A channel in confirm mode.
pub(super) type Channel = connection::Channel<Confirming>;

/// What a channel in confirm mode hears.
#[derive(Default)]
pub(super) struct Confirming {
    confirms: Confirms,
    /// Why a message that is just coming back does.
    returning: Option<String>,
}

impl Publisher {
    /// Opens a channel in confirm mode.
    ///
    /// # Errors
    /// Why the broker does not.
    pub(super) async fn channel(&self) -> Result<Channel, String> {
        let opened = self.open_channel().await?;
        let select = confirm::Select { nowait: false };
        let select = AMQPClass::Confirm(confirm::AMQPMethod::Select(select));
        opened.call("confirm.select", select).await?;
        Ok(opened)
    }
}

impl Role for Confirming {
    /// Confirms are small.
    const PIECE: usize = 16 * 1024;

    fn hear(&mut self, frame: &RawFrame) -> Result<connection::Heard, RawError> {
        match frame.kind {
            AMQPFrameType::Method => Ok(self.told(frame.method()?)),
            // Only returned messages come with content; of it the properties say which one it is.
            AMQPFrameType::Header => {
                let properties = frame.payload.get(CONTENT_FIXED..).unwrap_or_default();
                if let Some(why) = self.returning.take() {
                    self.confirms.returned(uid_of(properties).unwrap_or_default(), why);
                }
                Ok(connection::Heard::Nothing)
            }
            _ => Ok(connection::Heard::Nothing),
        }
    }

    fn written() {
        crash::pass(Point::PublishedUnconfirmed);
    }
}

impl Confirming {
    fn told(&mut self, method: AMQPClass) -> connection::Heard {
        use basic::AMQPMethod as Basic;
        match method {
            AMQPClass::Basic(Basic::Ack(ack)) => {
                self.confirms.answered(ack.delivery_tag, ack.multiple, Answer::Ack);
            }
            AMQPClass::Basic(Basic::Nack(nack)) => {
                self.confirms.answered(nack.delivery_tag, nack.multiple, Answer::Nack);
            }
            AMQPClass::Basic(Basic::Return(returned)) => {
                self.returning = Some(format!("{} {}", returned.reply_code, returned.reply_text));
            }
            other => return connection::Heard::Answer(other),
        }
        if self.confirms.are_complete() {
            connection::Heard::News
        } else {
            connection::Heard::Nothing
        }
    }
}
