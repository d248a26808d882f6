//! Everything that goes out, in the order it was handed over, and heartbeats in between.

use std::sync::Arc;
use std::time::Duration;

use amq_protocol::frame::AMQPFrame;
use futures_util::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::Receiver;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::channel::State;
use super::{End, Role, encode};

/// Whole frames of one channel.
pub(super) struct Chunk<R> {
    pub(super) bytes: Vec<u8>,
    /// Whose end makes it void: the broker ends a connection over a frame for a channel that it
    /// closed.
    pub(super) channel: Arc<State<R>>,
    /// Told when it is written; dropped when it never will be.
    pub(super) written: Option<oneshot::Sender<()>>,
}

/// Writes until nobody has anything to write any more.
pub(super) async fn write<R: Role>(
    mut to: impl AsyncWrite + Unpin,
    mut controls: Receiver<Vec<u8>>,
    mut chunks: Receiver<Chunk<R>>,
    heartbeat: Option<Duration>,
) -> End {
    // Twice as often as agreed, so that a late one still counts.
    let quiet = heartbeat.map_or(Duration::from_secs(3_600), |beat| beat / 2);
    loop {
        let next = async {
            tokio::select! {
                biased;
                control = controls.recv() => control.map(Next::Control),
                chunk = chunks.recv() => chunk.map(Next::Chunk),
            }
        };
        let (bytes, written) = match timeout(quiet, next).await {
            Ok(Some(Next::Control(bytes))) => (bytes, None),
            Ok(Some(Next::Chunk(chunk))) if chunk.channel.is_over() => continue,
            Ok(Some(Next::Chunk(Chunk { bytes, written, .. }))) => (bytes, Some(written)),
            Ok(None) => return End::Lost("closed".to_owned()),
            Err(_) if heartbeat.is_none() => continue,
            Err(_) => (encode(&AMQPFrame::Heartbeat).unwrap_or_default(), None),
        };
        let writing = async {
            to.write_all(&bytes).await?;
            to.flush().await
        };
        if let Err(error) = writing.await {
            return End::Lost(error.to_string());
        }
        if let Some(written) = written {
            R::written();
            let _ = written.map(|written| written.send(()));
        }
    }
}

/// What is written next.
enum Next<R> {
    Control(Vec<u8>),
    Chunk(Chunk<R>),
}
