//! One AMQP connection with one channel: reading, writing, heartbeats, and the broker's own moves.
//!
//! Partial reads and partial writes are kept in the session, never in a future: a call that is
//! cancelled loses nothing, the next one goes on where it stood.

use std::time::Duration;

use amq_protocol::frame::{AMQPFrame, AMQPFrameType};
use amq_protocol::protocol::{AMQPClass, basic, channel, connection, constants};
use bytes::{Buf, BytesMut};
use futures_util::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use lapin::tcp::AMQPUriTcpExt;
use tokio::time::{Instant, timeout, timeout_at};

use super::frames::{FrameReader, RawFrame, encode};
use super::handshake::FRAME_MAX;
use super::{Node, RawError};

/// The connection's own channel number.
pub(super) const CONNECTION: u16 = 0;
/// The only channel that is opened.
pub(super) const CHANNEL: u16 = 1;

/// Bytes asked of the socket at a time.
const CHUNK: usize = 64 * 1024;
const BASIC_DELIVER: (u16, u16) = (60, 60);

/// Plain or TLS.
pub(in super::super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// What reaches the layer above: heartbeats, flow and closing are dealt with here.
pub(super) enum Incoming {
    Method(AMQPClass),
    /// A part of a delivery, not decoded: basic.deliver, content header or body.
    Content(RawFrame),
}

/// A connection that is open on its virtual host, and what was agreed for it.
pub(in super::super) struct Opened {
    pub(in super::super) stream: Box<dyn Stream>,
    /// May hold what came in already.
    pub(in super::super) frames: FrameReader,
    pub(in super::super) heartbeat: Option<Duration>,
    /// Bytes.
    pub(in super::super) frame_max: usize,
    pub(in super::super) channel_max: u16,
}

pub(super) struct Session {
    stream: Box<dyn Stream>,
    chunk: Vec<u8>,
    reader: FrameReader,
    outgoing: BytesMut,
    /// Written, but perhaps still in the TLS layer's buffer.
    unflushed: bool,
    heartbeat: Option<Duration>,
    last_read: Instant,
    last_written: Instant,
    timeout: Duration,
}

impl Session {
    /// Connects as `node` says, without a word of AMQP yet.
    pub(super) async fn connect(node: &Node, timeout: Duration) -> Result<Self, RawError> {
        let runtime = lapin::runtime::default_runtime().map_err(std::io::Error::other)?;
        let stream = node.secure(node.in_the_clear().connect_async(&runtime).await?).await?;
        let now = Instant::now();
        Ok(Self {
            stream: Box::new(stream),
            chunk: vec![0; CHUNK],
            reader: FrameReader::new(FRAME_MAX),
            outgoing: BytesMut::new(),
            unflushed: false,
            heartbeat: None,
            last_read: now,
            last_written: now,
            timeout,
        })
    }

    /// The connection itself, for whoever goes on with it.
    pub(super) fn hand_over(self, channel_max: u16) -> Opened {
        let Self { stream, reader, heartbeat, .. } = self;
        let frame_max = reader.frame_max();
        Opened { stream, frames: reader, heartbeat, frame_max, channel_max }
    }

    /// Puts the agreed heartbeat (seconds, 0 for none) and frame size in force.
    pub(super) fn tune(&mut self, heartbeat: u16, frame_max: u32) {
        self.heartbeat = (heartbeat > 0).then(|| Duration::from_secs(heartbeat.into()));
        self.reader.set_frame_max(frame_max);
    }

    /// Queues a method; it goes out with the next flush, which every wait begins with.
    pub(super) fn send(&mut self, channel: u16, method: AMQPClass) -> Result<(), RawError> {
        self.send_frame(&AMQPFrame::Method(channel, method))
    }

    pub(super) fn send_frame(&mut self, frame: &AMQPFrame) -> Result<(), RawError> {
        self.outgoing.extend_from_slice(&encode(frame)?);
        Ok(())
    }

    /// Sends a request and waits for the broker to say that it was done.
    pub(super) async fn call(&mut self, on: u16, request: AMQPClass) -> Result<(), RawError> {
        // In AMQP each answer's number is the one after its request's.
        let awaited = (request.get_amqp_class_id(), request.get_amqp_method_id() + 1);
        self.send(on, request)?;
        let answer = self.answer().await?;
        if (answer.get_amqp_class_id(), answer.get_amqp_method_id()) != awaited {
            return Err(RawError::unexpected(&format!("{awaited:?}"), &answer));
        }
        Ok(())
    }

    /// The next method. Deliveries before it are passed over: they only come while closing, which
    /// returns them to the queue.
    pub(super) async fn answer(&mut self) -> Result<AMQPClass, RawError> {
        let until = from_now(self.timeout);
        loop {
            match self.next(until).await? {
                Some(Incoming::Method(method)) => return Ok(method),
                Some(Incoming::Content(_)) => {}
                None => return Err(RawError::Timeout("an answer")),
            }
        }
    }

    /// What comes next, or `None` when nothing came until then.
    pub(super) async fn next(&mut self, until: Instant) -> Result<Option<Incoming>, RawError> {
        let listening_since = Instant::now();
        loop {
            // Before what is already here, not only before waiting: a caller that works long on
            // each of many buffered messages still gives signs of life in between.
            self.beat()?;
            self.flush().await?;
            if let Some(frame) = self.reader.next()? {
                match self.sort(frame) {
                    Ok(None) => continue,
                    Ok(incoming) => return Ok(incoming),
                    Err(e) => {
                        // The broker waits for its close to be answered; the reason matters more.
                        let _ = self.flush().await;
                        return Err(e);
                    }
                }
            }
            let wake = self.next_beat().map_or(until, |beat| beat.min(until));
            if self.read(wake).await? {
                continue;
            }
            let now = Instant::now();
            // The time the caller was away does not count: the socket was not looked at.
            let silent = now - self.last_read.max(listening_since);
            if self.heartbeat.is_some_and(|beat| silent > 2 * beat) {
                return Err(RawError::Silent);
            }
            if now >= until {
                return Ok(None);
            }
        }
    }

    /// Deals with what concerns the connection itself, hands on the rest.
    fn sort(&mut self, frame: RawFrame) -> Result<Option<Incoming>, RawError> {
        match frame.kind {
            AMQPFrameType::Heartbeat => return Ok(None),
            AMQPFrameType::Method if frame.method_id() != Some(BASIC_DELIVER) => {}
            _ if frame.channel == CHANNEL => return Ok(Some(Incoming::Content(frame))),
            _ => return Err(RawError::protocol("content on a channel not open")),
        }
        self.obey(frame.method()?)
    }

    /// Answers what the broker asks of any client; closing and cancelling are errors here.
    fn obey(&mut self, method: AMQPClass) -> Result<Option<Incoming>, RawError> {
        use connection::AMQPMethod as Connection;
        match method {
            AMQPClass::Connection(Connection::Close(close)) => {
                let ok = Connection::CloseOk(connection::CloseOk {});
                self.send(CONNECTION, AMQPClass::Connection(ok))?;
                Err(RawError::ConnectionClosed {
                    code: close.reply_code,
                    text: close.reply_text.to_string(),
                })
            }
            AMQPClass::Channel(channel::AMQPMethod::Close(close)) => {
                let ok = channel::AMQPMethod::CloseOk(channel::CloseOk {});
                self.send(CHANNEL, AMQPClass::Channel(ok))?;
                Err(RawError::ChannelClosed {
                    code: close.reply_code,
                    text: close.reply_text.to_string(),
                })
            }
            AMQPClass::Channel(channel::AMQPMethod::Flow(channel::Flow { active })) => {
                let ok = channel::AMQPMethod::FlowOk(channel::FlowOk { active });
                self.send(CHANNEL, AMQPClass::Channel(ok))?;
                Ok(None)
            }
            AMQPClass::Basic(basic::AMQPMethod::Cancel(_)) => Err(RawError::Cancelled),
            // Meant for publishers; acknowledgements still go through.
            AMQPClass::Connection(Connection::Blocked(_) | Connection::Unblocked(_)) => Ok(None),
            other => Ok(Some(Incoming::Method(other))),
        }
    }

    /// Writes out all that is queued.
    pub(super) async fn flush(&mut self) -> Result<(), RawError> {
        if self.outgoing.is_empty() && !self.unflushed {
            return Ok(());
        }
        timeout(self.timeout, self.write_queued())
            .await
            .map_err(|_| RawError::Timeout("writing"))?
    }

    async fn write_queued(&mut self) -> Result<(), RawError> {
        while !self.outgoing.is_empty() {
            let written = self.stream.write(&self.outgoing).await?;
            if written == 0 {
                return Err(std::io::Error::from(std::io::ErrorKind::WriteZero).into());
            }
            self.outgoing.advance(written);
            self.unflushed = true;
            self.last_written = Instant::now();
        }
        if self.unflushed {
            self.stream.flush().await?;
            self.unflushed = false;
        }
        Ok(())
    }

    /// Takes in what the socket has; false when it had nothing until then.
    async fn read(&mut self, until: Instant) -> Result<bool, RawError> {
        let Ok(read) = timeout_at(until, self.stream.read(&mut self.chunk)).await else {
            return Ok(false);
        };
        match read? {
            0 => Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into()),
            length => {
                self.reader.extend(&self.chunk[..length]);
                self.last_read = Instant::now();
                Ok(true)
            }
        }
    }

    /// When the next heartbeat is due: twice as often as agreed, so that a late one still counts.
    fn next_beat(&self) -> Option<Instant> {
        self.heartbeat.map(|beat| self.last_written + beat / 2)
    }

    /// Queues a heartbeat when one is due. Anything else that is about to be written does as well.
    fn beat(&mut self) -> Result<(), RawError> {
        let due = self.next_beat().is_some_and(|due| due <= Instant::now());
        if due && self.outgoing.is_empty() {
            self.send_frame(&AMQPFrame::Heartbeat)?;
        }
        Ok(())
    }

    /// Says goodbye and hangs up.
    pub(super) async fn close_connection(mut self) -> Result<(), RawError> {
        let goodbye = connection::Close {
            reply_code: constants::REPLY_SUCCESS,
            reply_text: "done".into(),
            ..connection::Close::default()
        };
        let request = AMQPClass::Connection(connection::AMQPMethod::Close(goodbye));
        self.call(CONNECTION, request).await?;
        self.shut().await;
        Ok(())
    }

    /// Ends the connection after it was closed in AMQP's terms; nothing can go wrong any more.
    async fn shut(mut self) {
        let _ = self.stream.close().await;
    }
}

/// That long from now; a wait too long to express is a year.
pub(super) fn from_now(wait: Duration) -> Instant {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    let now = Instant::now();
    now.checked_add(wait).unwrap_or(now + YEAR)
}
