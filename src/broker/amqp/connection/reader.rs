//! Everything that comes in, handed to the channel it is for.

use std::sync::Arc;
use std::time::Duration;

use amq_protocol::frame::AMQPFrameType;
use amq_protocol::protocol::{AMQPClass, channel, connection};
use futures_util::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

use super::channel::State;
use super::{CONNECTION, End, FrameReader, RawError, RawFrame, Role, Shared};
use crate::broker::amqp::link::Standing;
use crate::broker::amqp::refusal::Refusal;

/// The class of the methods that open and close channels.
const CHANNEL_CLASS: u16 = 20;

/// Reads until the connection ends, and says why it did.
pub(super) async fn read<R: Role>(
    mut from: impl AsyncRead + Unpin,
    mut frames: FrameReader,
    shared: &Shared<R>,
    heartbeat: Option<Duration>,
) -> End {
    let silence = heartbeat.map_or(Duration::from_secs(365 * 24 * 3600), |beat| 2 * beat);
    let mut piece = vec![0; R::PIECE];
    let mut hearing = Hearing { shared, latest: None, has_news: false };
    loop {
        loop {
            match frames.next() {
                Ok(Some(frame)) => {
                    if let Err(end) = hearing.hear(&frame) {
                        return end;
                    }
                }
                Ok(None) => break,
                Err(error) => return End::Lost(error.to_string()),
            }
        }
        // Only now, so that all that came at once is found at once.
        hearing.announce();
        match timeout(silence, from.read(&mut piece)).await {
            Ok(Ok(0)) => return End::Lost("the broker hung up".to_owned()),
            Ok(Ok(length)) => frames.extend(&piece[..length]),
            Ok(Err(error)) => return End::Lost(error.to_string()),
            Err(_) => return End::Lost(RawError::Silent.to_string()),
        }
    }
}

/// What is read at once.
struct Hearing<'a, R> {
    shared: &'a Shared<R>,
    /// The channel heard last, most likely the next one as well.
    latest: Option<(u16, Arc<State<R>>)>,
    /// Whether its user may wait for what was heard.
    has_news: bool,
}

impl<R: Role> Hearing<'_, R> {
    fn hear(&mut self, frame: &RawFrame) -> Result<(), End> {
        let undecodable = |error: RawError| End::Lost(error.to_string());
        let class = frame.method_id().map(|(class, _)| class);
        if frame.channel == CONNECTION {
            return match frame.kind {
                AMQPFrameType::Method => {
                    hear_of_connection(frame.method().map_err(undecodable)?, self.shared)
                }
                _ => Ok(()),
            };
        }
        let Some(state) = self.turn_to(frame.channel) else {
            return Ok(());
        };
        if class == Some(CHANNEL_CLASS) {
            let state = Arc::clone(state);
            let method = frame.method().map_err(undecodable)?;
            hear_of_channel(frame.channel, method, &state, self.shared);
            // Its number may be another's by the next frame.
            self.announce();
            return Ok(());
        }
        self.has_news |= state.hear(frame).map_err(undecodable)?;
        Ok(())
    }

    fn turn_to(&mut self, channel: u16) -> Option<&Arc<State<R>>> {
        if self.latest.as_ref().is_none_or(|(number, _)| *number != channel) {
            self.announce();
            self.latest = self.shared.state_of(channel).map(|state| (channel, state));
        }
        self.latest.as_ref().map(|(_, state)| state)
    }

    /// Wakes whoever waits for what was heard last.
    fn announce(&mut self) {
        let has_news = std::mem::take(&mut self.has_news);
        if let Some((_, state)) = self.latest.take()
            && has_news
        {
            state.announce();
        }
    }
}

fn hear_of_connection<R: Role>(method: AMQPClass, shared: &Shared<R>) -> Result<(), End> {
    use connection::AMQPMethod as Connection;
    match method {
        AMQPClass::Connection(Connection::Close(close)) => {
            let ok = Connection::CloseOk(connection::CloseOk {});
            shared.control(CONNECTION, AMQPClass::Connection(ok));
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

fn hear_of_channel<R: Role>(number: u16, method: AMQPClass, state: &State<R>, shared: &Shared<R>) {
    use channel::AMQPMethod as Channel;
    match method {
        AMQPClass::Channel(Channel::Close(close)) => {
            let text = close.reply_text.to_string();
            state.end(End::Refused(Refusal { code: close.reply_code, text }));
            // Ended before this is sent: nothing more is written to it afterwards.
            let ok = Channel::CloseOk(channel::CloseOk {});
            shared.control(number, AMQPClass::Channel(ok));
            shared.forget(number);
        }
        AMQPClass::Channel(Channel::CloseOk(_)) => {
            shared.forget(number);
            state.end(End::Late);
        }
        AMQPClass::Channel(Channel::Flow(channel::Flow { active })) => {
            let ok = Channel::FlowOk(channel::FlowOk { active });
            shared.control(number, AMQPClass::Channel(ok));
        }
        other => state.reply(other),
    }
}
