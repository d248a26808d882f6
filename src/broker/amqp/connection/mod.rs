//! A connection of our own to RabbitMQ: handshake, frames, heartbeats, and channels that know what
//! they are for.
//!
//! lapin keeps a future, a promise and a waker for every message, decodes and encodes its headers,
//! ends the connection over a header name that is not UTF-8, and decodes nested tables by
//! recursion. Here the bytes of a message stay the bytes they are. What a channel is for, its
//! [`Role`], hears its frames; [`publisher`](super::publisher) and
//! [`subscriber`](super::subscriber) are the two there are. The contract:
//!
//! - channels are independent: one that is refused or falls silent disturbs no other;
//! - the reader never waits for anybody, so heartbeats are heard however busy the rest is;
//! - what is handed over to be written is written in that order, and never in part;
//! - any error of the connection ends it, and with it all channels. It is not made again here: that
//!   is for [`Link`](super::link::Link).

mod channel;
mod error;
mod frames;
mod handshake;
mod identity;
mod reader;
mod session;
#[cfg(test)]
mod tests;
mod writer;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use amq_protocol::frame::AMQPFrame;
use amq_protocol::protocol::{AMQPClass, channel as channels, connection, constants};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

pub(super) use self::channel::Channel;
pub(super) use self::channel::State;
pub(super) use self::error::RawError;
pub(super) use self::frames::{FrameReader, RawFrame, encode};
pub(super) use self::identity::{Identity, identify};
use self::writer::Chunk;
use super::link::{ANSWER_WITHIN, Connect, Standing};
use super::node::{self, Node};
use super::refusal::Refusal;

/// The connection's own channel number.
const CONNECTION: u16 = 0;
/// Most channels: one for each destination or queue, and a few for probes.
const CHANNEL_MAX: u16 = 2_047;
/// Writes that wait for the socket. Batches are few and large; what concerns channels is small.
const CHUNKS_WAITING: usize = 8;
const CONTROLS_WAITING: usize = 256;

/// What a channel is for.
pub(super) trait Role: Default + Send + 'static {
    /// Bytes asked of the socket at a time.
    const PIECE: usize;

    /// Takes in a frame of its channel.
    ///
    /// # Errors
    /// Why it makes no sense, which ends the connection.
    fn hear(&mut self, frame: &RawFrame) -> Result<Heard, RawError>;

    /// What it handed over has been written.
    fn written() {}
}

/// What a frame was to a [`Role`].
pub(super) enum Heard {
    /// Nothing that anybody waits for.
    Nothing,
    /// Something that whoever uses the channel may wait for.
    News,
    /// The answer to a call.
    Answer(AMQPClass),
}

/// Why no more is heard on a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The broker closed it, or the connection with it.
    Refused(Refusal),
    /// The connection is gone.
    Lost(String),
    /// It was given up, or closed as it should be.
    Late,
}

/// One connection.
pub(super) struct Connection<R: Role> {
    shared: Arc<Shared<R>>,
    frame_max: usize,
    driver: JoinHandle<()>,
}

/// What a connection and its channels share.
struct Shared<R> {
    channels: Mutex<Channels<R>>,
    controls: mpsc::Sender<Vec<u8>>,
    chunks: mpsc::Sender<Chunk<R>>,
    standing: watch::Sender<Standing>,
}

/// Channels by their number.
struct Channels<R> {
    open: HashMap<u16, Arc<State<R>>>,
    last: u16,
    max: u16,
}

impl<R: Role> Connection<R> {
    /// Opens a channel.
    ///
    /// # Errors
    /// Why the broker does not.
    pub(super) async fn open_channel(&self) -> Result<Channel<R>, String> {
        let (number, state) = self.shared.register()?;
        let opened = Channel::new(number, state, Arc::clone(&self.shared), self.frame_max);
        let open = AMQPClass::Channel(channels::AMQPMethod::Open(channels::Open {}));
        opened.call("opening a channel", open).await?;
        Ok(opened)
    }

    /// The largest frame that was agreed, in bytes.
    pub(super) fn frame_max(&self) -> usize {
        self.frame_max
    }

    async fn make(node: &Node, name: &str) -> Result<Self, RawError> {
        let opening = handshake::open(node, name, CHANNEL_MAX, ANSWER_WITHIN);
        let opened = tokio::time::timeout(ANSWER_WITHIN, opening).await;
        let (session, agreed) = opened.map_err(|_| RawError::Timeout("connecting"))??;
        let opened = session.hand_over();
        let (controls, controls_waiting) = mpsc::channel(CONTROLS_WAITING);
        let (chunks, chunks_waiting) = mpsc::channel(CHUNKS_WAITING);
        let shared = Arc::new(Shared {
            channels: Mutex::new(Channels::new(agreed.channel_max)),
            controls,
            chunks,
            standing: watch::Sender::new(Standing::Connected),
        });
        let frame_max = opened.frames.frame_max();
        let driver = tokio::spawn({
            let shared = Arc::clone(&shared);
            async move {
                let (from, to) = futures_util::AsyncReadExt::split(opened.stream);
                let heartbeat = opened.heartbeat;
                let end = tokio::select! {
                    end = reader::read(from, opened.frames, &shared, heartbeat) => end,
                    end = writer::write(to, controls_waiting, chunks_waiting, heartbeat) => end,
                };
                shared.end(&end);
            }
        });
        Ok(Self { shared, frame_max, driver })
    }
}

#[async_trait::async_trait]
impl<R: Role> Connect for Connection<R> {
    async fn connect(node: Node, name: &str) -> Result<Self, String> {
        Self::make(&node, name).await.map_err(|error| node::words(&error))
    }

    fn is_connected(&self) -> bool {
        !matches!(*self.shared.standing.borrow(), Standing::Lost(_))
    }

    fn standing(&self) -> watch::Receiver<Standing> {
        self.shared.standing.subscribe()
    }

    async fn close(&self) {
        let goodbye = connection::Close {
            reply_code: constants::REPLY_SUCCESS,
            reply_text: "bye".into(),
            ..connection::Close::default()
        };
        self.shared
            .control(CONNECTION, AMQPClass::Connection(connection::AMQPMethod::Close(goodbye)));
        let mut standing = self.standing();
        let gone = standing.wait_for(|standing| matches!(standing, Standing::Lost(_)));
        let _ = tokio::time::timeout(ANSWER_WITHIN, gone).await;
    }
}

impl<R: Role> Drop for Connection<R> {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl<R> Channels<R> {
    fn new(max: u16) -> Self {
        Self { open: HashMap::new(), last: 0, max }
    }
}

impl<R: Role> Shared<R> {
    /// A number that is free. The one freed last is used last: what is still on its way to a
    /// channel must not meet its successor.
    fn register(&self) -> Result<(u16, Arc<State<R>>), String> {
        let mut channels = self.channels();
        let max = channels.max;
        for _ in 0..max {
            let number = channels.last % max + 1;
            channels.last = number;
            if let Entry::Vacant(free) = channels.open.entry(number) {
                return Ok((number, Arc::clone(free.insert(Arc::default()))));
            }
        }
        Err(format!("all {max} channels of the connection are in use"))
    }

    fn state_of(&self, channel: u16) -> Option<Arc<State<R>>> {
        self.channels().open.get(&channel).cloned()
    }

    fn forget(&self, channel: u16) {
        self.channels().open.remove(&channel);
    }

    /// Sends a method; it is not worth waiting for a connection that cannot take even that.
    fn control(&self, channel: u16, method: AMQPClass) {
        if let Ok(frame) = encode(&AMQPFrame::Method(channel, method)) {
            let _ = self.controls.try_send(frame);
        }
    }

    /// Tells all channels that nothing more will be heard.
    fn end(&self, end: &End) {
        let why = match end {
            End::Refused(refusal) => refusal.to_string(),
            End::Lost(why) => why.clone(),
            End::Late => "silence".to_owned(),
        };
        self.standing.send_replace(Standing::Lost(why));
        let open = std::mem::take(&mut self.channels().open);
        open.values().for_each(|state| state.end(end.clone()));
    }

    fn channels(&self) -> MutexGuard<'_, Channels<R>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
