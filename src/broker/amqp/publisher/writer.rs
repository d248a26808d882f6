//! Everything that goes out, in the order it was handed over, and heartbeats in between.

use std::sync::Arc;
use std::time::Duration;

use amq_protocol::frame::AMQPFrame;
use futures_util::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

use super::End;
use super::channel::State;
use crate::broker::amqp::raw;
use crate::crash::{self, Point};

/// Whole messages for one channel.
pub(super) struct Chunk {
    pub(super) bytes: Vec<u8>,
    /// Whose end makes it void: the broker ends a connection over a frame for a channel that it
    /// closed.
    pub(super) channel: Arc<State>,
}

/// Writes until nobody has anything to write any more.
pub(super) async fn write(
    mut to: impl AsyncWrite + Unpin,
    mut controls: Receiver<Vec<u8>>,
    mut chunks: Receiver<Chunk>,
    heartbeat: Option<Duration>,
) -> End {
    // Twice as often as agreed, so that a late one still counts.
    let quiet = heartbeat.map_or(Duration::from_secs(3_600), |beat| beat / 2);
    loop {
        let next = async {
            tokio::select! {
                biased;
                control = controls.recv() => control.map(|control| (control, false)),
                chunk = chunks.recv() => chunk.map(|Chunk { bytes, channel }| {
                    if channel.is_over() { (Vec::new(), false) } else { (bytes, true) }
                }),
            }
        };
        let (bytes, publishes) = match timeout(quiet, next).await {
            Ok(Some(next)) => next,
            Ok(None) => return End::Lost("closed".to_owned()),
            Err(_) if heartbeat.is_none() => continue,
            Err(_) => (raw::encode(&AMQPFrame::Heartbeat).unwrap_or_default(), false),
        };
        let written = async {
            to.write_all(&bytes).await?;
            to.flush().await
        };
        if let Err(error) = written.await {
            return End::Lost(error.to_string());
        }
        if publishes {
            crash::pass(Point::PublishedUnconfirmed);
        }
    }
}
