//! Everything that comes in, handed to the channel it is for.

use std::time::Duration;

use amq_protocol::frame::AMQPFrameType;
use amq_protocol::protocol::{AMQPClass, basic, channel, connection};
use futures_util::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

use super::confirms::Answer;
use super::{End, Shared};
use crate::broker::amqp::link::Standing;
use crate::broker::amqp::outgoing::uid_of;
use crate::broker::amqp::raw::{FrameReader, RawError, RawFrame};
use crate::broker::amqp::refusal::Refusal;
use crate::message::amqp::property_list::CONTENT_FIXED;

/// Bytes asked of the socket at a time. Confirms are small.
const PIECE: usize = 16 * 1024;

/// Reads until the connection ends, and says why it did.
pub(super) async fn read(
    mut from: impl AsyncRead + Unpin,
    mut frames: FrameReader,
    shared: &Shared,
    heartbeat: Option<Duration>,
) -> End {
    let silence = heartbeat.map_or(Duration::from_secs(365 * 24 * 3600), |beat| 2 * beat);
    let mut piece = vec![0; PIECE];
    loop {
        loop {
            match frames.next() {
                Ok(Some(frame)) => {
                    if let Err(end) = hear(&frame, shared) {
                        return end;
                    }
                }
                Ok(None) => break,
                Err(error) => return End::Lost(error.to_string()),
            }
        }
        match timeout(silence, from.read(&mut piece)).await {
            Ok(Ok(0)) => return End::Lost("the broker hung up".to_owned()),
            Ok(Ok(length)) => frames.extend(&piece[..length]),
            Ok(Err(error)) => return End::Lost(error.to_string()),
            Err(_) => return End::Lost(RawError::Silent.to_string()),
        }
    }
}

fn hear(frame: &RawFrame, shared: &Shared) -> Result<(), End> {
    let undecodable = |error: RawError| End::Lost(error.to_string());
    match frame.kind {
        AMQPFrameType::Method if frame.channel == 0 => {
            hear_of_connection(frame.method().map_err(undecodable)?, shared)
        }
        AMQPFrameType::Method => {
            hear_of_channel(frame.channel, frame.method().map_err(undecodable)?, shared);
            Ok(())
        }
        // Only returned messages come with content; of it the properties say which one it is.
        AMQPFrameType::Header => {
            let properties = frame.payload.get(CONTENT_FIXED..).unwrap_or_default();
            if let Some(state) = shared.state_of(frame.channel) {
                state.returned(uid_of(properties).unwrap_or_default());
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn hear_of_connection(method: AMQPClass, shared: &Shared) -> Result<(), End> {
    use connection::AMQPMethod as Connection;
    match method {
        AMQPClass::Connection(Connection::Close(close)) => {
            let ok = Connection::CloseOk(connection::CloseOk {});
            shared.control(0, AMQPClass::Connection(ok));
            let text = close.reply_text.to_string();
            return Err(End::Refused(Refusal { code: close.reply_code, text }));
        }
        AMQPClass::Connection(Connection::CloseOk(_)) => {
            return Err(End::Lost("closed".to_owned()));
        }
        AMQPClass::Connection(Connection::Blocked(blocked)) => {
            let why = blocked.reason.to_string();
            shared.standing.send_replace(Standing::Blocked(why));
        }
        AMQPClass::Connection(Connection::Unblocked(_)) => {
            shared.standing.send_replace(Standing::Connected);
        }
        _ => {}
    }
    Ok(())
}

fn hear_of_channel(number: u16, method: AMQPClass, shared: &Shared) {
    use basic::AMQPMethod as Basic;
    use channel::AMQPMethod as Channel;
    let Some(state) = shared.state_of(number) else {
        return;
    };
    match method {
        AMQPClass::Basic(Basic::Ack(ack)) => state.confirms(|confirms| {
            confirms.answered(ack.delivery_tag, ack.multiple, Answer::Ack);
        }),
        AMQPClass::Basic(Basic::Nack(nack)) => state.confirms(|confirms| {
            confirms.answered(nack.delivery_tag, nack.multiple, Answer::Nack);
        }),
        AMQPClass::Basic(Basic::Return(returned)) => {
            state.returning(format!("{} {}", returned.reply_code, returned.reply_text));
        }
        AMQPClass::Channel(Channel::Close(close)) => {
            let text = close.reply_text.to_string();
            state.end(End::Refused(Refusal { code: close.reply_code, text }));
            // Ended before this is sent: nothing more is written to it afterwards.
            let ok = Channel::CloseOk(channel::CloseOk {});
            shared.control(number, AMQPClass::Channel(ok));
            shared.forget(number);
        }
        AMQPClass::Channel(Channel::CloseOk(_)) => shared.forget(number),
        AMQPClass::Channel(Channel::Flow(channel::Flow { active })) => {
            let ok = Channel::FlowOk(channel::FlowOk { active });
            shared.control(number, AMQPClass::Channel(ok));
        }
        other => state.reply(other),
    }
}
