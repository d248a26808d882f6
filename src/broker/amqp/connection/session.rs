//! A connection before it is open: what is said in turns, until the handshake is over.

use std::time::Duration;

use amq_protocol::frame::AMQPFrame;
use amq_protocol::protocol::{AMQPClass, connection, constants};
use futures_util::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use lapin::tcp::AMQPUriTcpExt;
use tokio::time::timeout;

use super::frames::{FrameReader, encode};
use super::handshake::FRAME_MAX;
use super::{CONNECTION, Node, RawError};

/// Bytes asked of the socket at a time.
const PIECE: usize = 8 * 1024;

/// Plain or TLS.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection that is open on its virtual host, and what was agreed for it.
pub(super) struct Opened {
    pub(super) stream: Box<dyn Stream>,
    /// Knows the agreed frame size, and may hold what came in already.
    pub(super) frames: FrameReader,
    pub(super) heartbeat: Option<Duration>,
}

pub(super) struct Session {
    stream: Box<dyn Stream>,
    frames: FrameReader,
    heartbeat: Option<Duration>,
    timeout: Duration,
}

impl Session {
    /// Connects as `node` says, without a word of AMQP yet. `timeout` bounds each later wait.
    pub(super) async fn connect(node: &Node, timeout: Duration) -> Result<Self, RawError> {
        let runtime = lapin::runtime::default_runtime().map_err(std::io::Error::other)?;
        let stream = node.in_the_clear().connect_async(&runtime).await?;
        let stream = Box::new(node.secure(stream).await?);
        Ok(Self { stream, frames: FrameReader::new(FRAME_MAX), heartbeat: None, timeout })
    }

    /// The connection itself, for whoever goes on with it.
    pub(super) fn hand_over(self) -> Opened {
        let Self { stream, frames, heartbeat, .. } = self;
        Opened { stream, frames, heartbeat }
    }

    /// Puts the agreed heartbeat (seconds, 0 for none) and frame size in force.
    pub(super) fn tune(&mut self, heartbeat: u16, frame_max: u32) {
        self.heartbeat = (heartbeat > 0).then(|| Duration::from_secs(heartbeat.into()));
        self.frames.set_frame_max(frame_max);
    }

    /// Sends a method of the connection's own.
    pub(super) async fn send(&mut self, method: connection::AMQPMethod) -> Result<(), RawError> {
        let method = AMQPClass::Connection(method);
        self.send_frame(&AMQPFrame::Method(CONNECTION, method)).await
    }

    pub(super) async fn send_frame(&mut self, frame: &AMQPFrame) -> Result<(), RawError> {
        let bytes = encode(frame)?;
        let writing = async {
            self.stream.write_all(&bytes).await?;
            self.stream.flush().await
        };
        let written = timeout(self.timeout, writing).await;
        Ok(written.map_err(|_| RawError::Timeout("writing"))??)
    }

    /// Sends a request and waits for the broker to say that it was done.
    pub(super) async fn call(&mut self, request: connection::AMQPMethod) -> Result<(), RawError> {
        // In AMQP each answer's number is the one after its request's.
        let class = AMQPClass::Connection(request.clone());
        let awaited = (class.get_amqp_class_id(), class.get_amqp_method_id() + 1);
        self.send(request).await?;
        let answer = AMQPClass::Connection(self.answer().await?);
        if (answer.get_amqp_class_id(), answer.get_amqp_method_id()) != awaited {
            return Err(RawError::unexpected(&format!("{awaited:?}"), &answer));
        }
        Ok(())
    }

    /// What the broker says next.
    pub(super) async fn answer(&mut self) -> Result<connection::AMQPMethod, RawError> {
        let answer = timeout(self.timeout, self.next_method()).await;
        match answer.map_err(|_| RawError::Timeout("an answer"))?? {
            AMQPClass::Connection(connection::AMQPMethod::Close(close)) => {
                // The broker waits for this, but the reason matters more.
                let _ = self.send(connection::AMQPMethod::CloseOk(connection::CloseOk {})).await;
                let text = close.reply_text.to_string();
                Err(RawError::ConnectionClosed { code: close.reply_code, text })
            }
            AMQPClass::Connection(method) => Ok(method),
            other => Err(RawError::unexpected("a word of the connection", &other)),
        }
    }

    async fn next_method(&mut self) -> Result<AMQPClass, RawError> {
        let mut piece = [0; PIECE];
        loop {
            while let Some(frame) = self.frames.next()? {
                // Else a heartbeat.
                if frame.method_id().is_some() {
                    return frame.method();
                }
            }
            match self.stream.read(&mut piece).await? {
                0 => return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into()),
                length => self.frames.extend(&piece[..length]),
            }
        }
    }

    /// Says goodbye and hangs up.
    pub(super) async fn close(mut self) -> Result<(), RawError> {
        let goodbye = connection::Close {
            reply_code: constants::REPLY_SUCCESS,
            reply_text: "done".into(),
            ..connection::Close::default()
        };
        self.call(connection::AMQPMethod::Close(goodbye)).await?;
        // Closed in AMQP's terms, so nothing can go wrong any more.
        let _ = self.stream.close().await;
        Ok(())
    }
}
