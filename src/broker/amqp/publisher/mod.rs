//! A connection that publishes: whole batches in few large writes, and what the broker says of
//! each message of them.
//!
//! lapin keeps a future, a promise and a waker for every message, decodes and encodes its headers,
//! and hands a returned message to whichever confirm completes next. Here a batch is one list of
//! answers, properties stay the bytes they are, and a return is known by its uid. The contract:
//!
//! - channels are independent: one that is refused or falls silent disturbs no other;
//! - an ack counts for a message only if the message was not returned, and RabbitMQ sends the
//!   return first (its documentation of publisher confirms says so);
//! - a batch of which not everything was heard leaves its channel unusable: what is said late
//!   cannot be taken for the next batch's;
//! - any error of the connection ends it, and with it all channels. It is not made again here: that
//!   is for [`Link`](super::link::Link).

mod channel;
mod confirms;
mod frames;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use amq_protocol::frame::AMQPFrame;
use amq_protocol::protocol::{AMQPClass, connection, constants};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

pub(super) use self::channel::Channel;
use self::channel::State;
pub(super) use self::confirms::{Answer, Heard};
pub(super) use self::frames::fits;
use self::writer::Chunk;
use super::link::{ANSWER_WITHIN, Connect, Standing};
use super::node::{self, Node};
use super::raw;
use super::refusal::Refusal;

/// Most channels: one for each destination, and a few for probes.
const CHANNEL_MAX: u16 = 2_047;
/// Writes that wait for the socket. Batches are few and large; what concerns channels is small.
const CHUNKS_WAITING: usize = 8;
const CONTROLS_WAITING: usize = 256;

/// Why no more is heard on a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The broker closed it, or the connection with it.
    Refused(Refusal),
    /// The connection is gone.
    Lost(String),
    /// The time was over first.
    Late,
}

/// One connection.
pub(super) struct Publisher {
    shared: Arc<Shared>,
    frame_max: usize,
    driver: JoinHandle<()>,
}

/// What a connection and its channels share.
struct Shared {
    channels: Mutex<Channels>,
    controls: mpsc::Sender<Vec<u8>>,
    chunks: mpsc::Sender<Chunk>,
    standing: watch::Sender<Standing>,
}

/// Channels by their number.
#[derive(Default)]
struct Channels {
    open: HashMap<u16, Arc<State>>,
    last: u16,
    max: u16,
}

impl Publisher {
    /// Opens a channel in confirm mode, as `name` says in errors.
    ///
    /// # Errors
    /// Why the broker does not.
    pub(super) async fn channel(&self) -> Result<Channel, String> {
        let (number, state) = self.shared.register()?;
        Channel::open(number, state, Arc::clone(&self.shared), self.frame_max).await
    }

    /// The largest frame that was agreed, in bytes.
    pub(super) fn frame_max(&self) -> usize {
        self.frame_max
    }

    async fn make(node: &Node, name: &str) -> Result<Self, raw::RawError> {
        let opened = raw::open(node, name, CHANNEL_MAX, ANSWER_WITHIN).await?;
        let (controls, controls_waiting) = mpsc::channel(CONTROLS_WAITING);
        let (chunks, chunks_waiting) = mpsc::channel(CHUNKS_WAITING);
        let channels = Channels { max: opened.channel_max, ..Channels::default() };
        let shared = Arc::new(Shared {
            channels: Mutex::new(channels),
            controls,
            chunks,
            standing: watch::Sender::new(Standing::Connected),
        });
        let frame_max = opened.frame_max;
        let driver = tokio::spawn({
            let shared = Arc::clone(&shared);
            async move {
                let (from, to) = futures_util::AsyncReadExt::split(opened.stream);
                let end = tokio::select! {
                    end = reader::read(from, opened.frames, &shared, opened.heartbeat) => end,
                    end = writer::write(to, controls_waiting, chunks_waiting, opened.heartbeat) => end,
                };
                shared.end(&end);
            }
        });
        Ok(Self { shared, frame_max, driver })
    }
}

#[async_trait::async_trait]
impl Connect for Publisher {
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
        self.shared.control(0, AMQPClass::Connection(connection::AMQPMethod::Close(goodbye)));
        let mut standing = self.standing();
        let gone = standing.wait_for(|standing| matches!(standing, Standing::Lost(_)));
        let _ = tokio::time::timeout(ANSWER_WITHIN, gone).await;
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Shared {
    /// A number that is free. The one freed last is used last: what is still on its way to a
    /// channel must not meet its successor.
    fn register(&self) -> Result<(u16, Arc<State>), String> {
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

    fn state_of(&self, channel: u16) -> Option<Arc<State>> {
        self.channels().open.get(&channel).cloned()
    }

    fn forget(&self, channel: u16) {
        self.channels().open.remove(&channel);
    }

    /// Sends a method; it is not worth waiting for a connection that cannot take even that.
    fn control(&self, channel: u16, method: AMQPClass) {
        if let Ok(frame) = raw::encode(&AMQPFrame::Method(channel, method)) {
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

    fn channels(&self) -> MutexGuard<'_, Channels> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
