//! The few methods that are read or written here, in the bytes they travel in.

use bytes::BytesMut;

use super::frames::{self, METHOD, MethodId, method_id};
use crate::message::amqp::table;

pub(super) const CONNECTION_START_OK: MethodId = (10, 11);
pub(super) const CONNECTION_TUNE_OK: MethodId = (10, 31);
pub(super) const CONNECTION_OPEN: MethodId = (10, 40);
pub(super) const CONNECTION_OPEN_OK: MethodId = (10, 41);
const CONNECTION_CLOSE: MethodId = (10, 50);
pub(super) const CHANNEL_OPEN: MethodId = (20, 10);
pub(super) const CHANNEL_CLOSE: MethodId = (20, 40);
pub(super) const CHANNEL_CLOSE_OK: MethodId = (20, 41);
pub(super) const EXCHANGE_DECLARE: MethodId = (40, 10);
pub(super) const EXCHANGE_DELETE: MethodId = (40, 20);
pub(super) const QUEUE_DECLARE: MethodId = (50, 10);
pub(super) const BASIC_PUBLISH: MethodId = (60, 40);

/// The codes that xdelay itself closes a channel or connection with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    /// What was asked for cannot be had.
    PreconditionFailed = 406,
    /// Who asks may not.
    AccessRefused = 403,
    /// xdelay itself ends.
    ConnectionForced = 320,
    /// What came is not AMQP.
    FrameError = 501,
}

/// The most that fits into the text of a close.
const TEXT_MAX: usize = 255;

/// A `basic.publish`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Publish<'a> {
    pub(super) exchange: &'a [u8],
    /// Routing key and flags.
    rest: &'a [u8],
}

impl<'a> Publish<'a> {
    /// Reads the payload of one; `None` when it is not what it should be.
    pub(super) fn read(payload: &'a [u8]) -> Option<Self> {
        // Class, method and a reserved number.
        let (exchange, rest) = short(payload.get(6..)?)?;
        let (_, flags) = short(rest)?;
        (flags.len() == 1).then_some(Self { exchange, rest })
    }

    /// Appends the frame of this publish, to another exchange.
    pub(super) fn write_to(&self, to: &mut BytesMut, channel: u16, prefix: &str) {
        let length = [(prefix.len() + self.exchange.len()) as u8];
        let parts =
            [&[0, 60, 0, 40, 0, 0], &length[..], prefix.as_bytes(), self.exchange, self.rest];
        frames::write(to, METHOD, channel, &parts);
    }
}

/// How a client logs in: `connection.start-ok`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StartOk<'a> {
    pub(super) mechanism: &'a [u8],
    pub(super) response: &'a [u8],
}

impl<'a> StartOk<'a> {
    pub(super) fn read(payload: &'a [u8]) -> Option<Self> {
        let (_, rest) = long(payload.get(4..)?)?;
        let (mechanism, rest) = short(rest)?;
        let (response, _) = long(rest)?;
        Some(Self { mechanism, response })
    }

    /// Who the client says it is, in the mechanisms that say it at once.
    pub(super) fn user(&self) -> Option<&'a [u8]> {
        match self.mechanism {
            b"PLAIN" => self.response.split(|byte| *byte == 0).nth(1),
            b"AMQPLAIN" => {
                let mut fields = table::fields(self.response).map_while(Result::ok);
                let login = fields.find(|field| self.response[field.name.clone()] == *b"LOGIN")?;
                self.response.get(login.value.start + 4..login.value.end)
            }
            _ => None,
        }
    }
}

/// What `connection.tune-ok` agrees to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tuned {
    /// Bytes of the largest frame; 0 for any.
    pub(super) frame_max: u32,
    /// Seconds; 0 for none.
    pub(super) heartbeat: u16,
}

impl Tuned {
    pub(super) fn read(payload: &[u8]) -> Option<Self> {
        // After class, method and the highest channel.
        let &[a, b, c, d, e, f] = payload.get(6..)? else { return None };
        let frame_max = u32::from_be_bytes([a, b, c, d]);
        Some(Self { frame_max, heartbeat: u16::from_be_bytes([e, f]) })
    }
}

/// The vhost in a `connection.open`.
pub(super) fn vhost(payload: &[u8]) -> Option<&[u8]> {
    short(payload.get(4..)?).map(|(vhost, _)| vhost)
}

/// Appends a `channel.close` that blames a method, in the broker's form.
pub(super) fn write_channel_close(to: &mut BytesMut, channel: u16, blamed: MethodId, why: &str) {
    let text = format!("PRECONDITION_FAILED - {why}");
    write_close(to, channel, CHANNEL_CLOSE, (Code::PreconditionFailed, &text), blamed);
}

/// Appends a `channel.close-ok`.
pub(super) fn write_channel_close_ok(to: &mut BytesMut, channel: u16) {
    write(to, channel, CHANNEL_CLOSE_OK, &[]);
}

/// Appends a `connection.close`.
pub(super) fn write_connection_close(to: &mut BytesMut, code: Code, text: &str) {
    write_close(to, 0, CONNECTION_CLOSE, (code, text), (0, 0));
}

fn write_close(
    to: &mut BytesMut,
    channel: u16,
    method: MethodId,
    (code, text): (Code, &str),
    blamed: MethodId,
) {
    let cut = (0..=TEXT_MAX.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    let text = &text.as_bytes()[..cut.unwrap_or(0)];
    let code = (code as u16).to_be_bytes();
    let (class, of) = (blamed.0.to_be_bytes(), blamed.1.to_be_bytes());
    write(to, channel, method, &[&code, &[text.len() as u8], text, &class, &of]);
}

fn write(to: &mut BytesMut, channel: u16, (class, method): MethodId, arguments: &[&[u8]]) {
    let (class, method) = (class.to_be_bytes(), method.to_be_bytes());
    let parts: Vec<&[u8]> =
        [&class[..], &method].into_iter().chain(arguments.iter().copied()).collect();
    frames::write(to, METHOD, channel, &parts);
}

/// A long string or table and what follows it.
fn long(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(u32::from_be_bytes(*length) as usize)
}

/// A short string and what follows it.
fn short(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(length))
}

/// The method of a frame whose payload may not be whole yet.
pub(super) fn begun(bytes: &[u8]) -> Option<MethodId> {
    method_id(bytes.get(frames::LEAD..)?)
}

#[cfg(test)]
mod tests {
    use amq_protocol::frame::{AMQPFrame, WriteContext, gen_frame, parse_frame};
    use amq_protocol::protocol::{AMQPClass, basic, channel, connection};

    use super::*;

    fn payload(method: AMQPClass) -> Vec<u8> {
        let frame = AMQPFrame::Method(1, method);
        let whole = gen_frame(&frame)(WriteContext::from(Vec::new())).unwrap().into_inner().0;
        whole[frames::LEAD..whole.len() - 1].to_vec()
    }

    fn read_back(bytes: &[u8]) -> AMQPFrame {
        let (rest, frame) = parse_frame(bytes).unwrap();
        assert!(rest.is_empty());
        frame
    }

    #[test]
    fn a_publish_goes_to_another_exchange_and_keeps_the_rest() {
        let sent = basic::Publish {
            exchange: "orders".into(),
            routing_key: "eu.de".into(),
            mandatory: true,
            ..basic::Publish::default()
        };
        let bytes = payload(AMQPClass::Basic(basic::AMQPMethod::Publish(sent.clone())));
        let publish = Publish::read(&bytes).unwrap();
        assert_eq!(publish.exchange, b"orders");
        let mut out = BytesMut::new();
        publish.write_to(&mut out, 7, "xdelay.");
        let moved = basic::Publish { exchange: "xdelay.orders".into(), ..sent };
        let moved = AMQPClass::Basic(basic::AMQPMethod::Publish(moved));
        assert_eq!(read_back(&out), AMQPFrame::Method(7, moved));
        for cut in 0..bytes.len() {
            assert_eq!(Publish::read(&bytes[..cut]), None);
        }
    }

    #[test]
    fn what_the_handshake_agrees_is_read() {
        let tune = connection::TuneOk { channel_max: 1, frame_max: 8_192, heartbeat: 60 };
        let bytes = payload(AMQPClass::Connection(connection::AMQPMethod::TuneOk(tune)));
        assert_eq!(Tuned::read(&bytes), Some(Tuned { frame_max: 8_192, heartbeat: 60 }));
        let open = connection::Open { virtual_host: "/v".into() };
        let bytes = payload(AMQPClass::Connection(connection::AMQPMethod::Open(open)));
        assert_eq!(vhost(&bytes), Some(&b"/v"[..]));
    }

    #[test]
    fn a_close_says_why_in_what_room_there_is() {
        let mut out = BytesMut::new();
        write_channel_close(&mut out, 3, BASIC_PUBLISH, &"ü".repeat(200));
        let AMQPFrame::Method(3, AMQPClass::Channel(channel::AMQPMethod::Close(close))) =
            read_back(&out)
        else {
            panic!("{out:?}");
        };
        assert_eq!((close.reply_code, close.class_id, close.method_id), (406, 60, 40));
        let text = format!("PRECONDITION_FAILED - {}", "ü".repeat(116));
        assert_eq!(close.reply_text.to_string(), text);
    }
}
