//! One direction of a connection: what has come in, and what of it has still to go out.
//!
//! A pipe takes nothing in while something has to go out, so that a slow reader slows its sender
//! down and nothing piles up here. While nothing comes it holds no memory.

use std::io;
use std::pin::pin;

use bytes::{Buf, BytesMut};
use prometheus_client::metrics::counter::Counter;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::frames::Passed;

/// Bytes asked of a socket at a time.
const CHUNK: usize = 64 << 10;

#[derive(Default)]
pub(super) struct Pipe {
    input: BytesMut,
    /// So much of the input goes out as it is.
    verbatim: usize,
    /// Or this goes out in place of it.
    out: BytesMut,
    /// What was written may still lie in a buffer of the stream.
    unflushed: bool,
    /// Nothing more comes in.
    ended: bool,
    /// Nothing more goes out.
    shut: bool,
    /// Counts what went out.
    written: Counter,
}

impl Pipe {
    /// Nothing has come yet; what goes out is counted.
    pub(super) fn counted_by(written: Counter) -> Self {
        Self { written, ..Self::default() }
    }

    /// Whether something has to go out.
    pub(super) fn is_writing(&self) -> bool {
        self.verbatim > 0 || !self.out.is_empty() || self.unflushed
    }

    /// Whether nothing more comes in.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether all went out that ever will, and the other side may be told.
    pub(super) fn is_done(&self) -> bool {
        self.ended && !self.is_writing() && !self.shut
    }

    /// The other side takes nothing more.
    pub(super) fn give_up(&mut self) {
        let written = self.written.clone();
        *self = Self { ended: true, shut: true, written, ..Self::default() };
    }

    /// Walks over what has come in, and keeps what is to go out.
    pub(super) fn pass<T, E>(
        &mut self,
        walk: impl FnOnce(&[u8], &mut BytesMut) -> Result<(Passed, T), E>,
    ) -> Result<T, E> {
        debug_assert!(self.verbatim == 0 && self.out.is_empty(), "one pass at a time");
        let (passed, said) = walk(&self.input, &mut self.out)?;
        if passed.verbatim {
            self.verbatim = passed.consumed;
        } else {
            self.input.advance(passed.consumed);
        }
        Ok(said)
    }

    /// Writes what has to go out or else, where it `may_read`, takes in what there is. Waits for
    /// either; cancel-safe.
    ///
    /// # Errors
    /// When it could not write. A side that cannot be read has ended.
    pub(super) async fn turn(
        &mut self,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
        may_read: bool,
    ) -> io::Result<()> {
        if self.is_writing() {
            return self.write(to).await;
        }
        if !may_read || self.ended {
            return std::future::pending().await;
        }
        self.read(from).await;
        Ok(())
    }

    async fn read(&mut self, from: &mut (impl AsyncRead + Unpin)) {
        let input = &mut self.input;
        let read = std::future::poll_fn(|cx| {
            input.reserve(CHUNK);
            let read = pin!(from.read_buf(input)).poll(cx);
            if read.is_pending() && input.is_empty() {
                // Thousands of connections are idle most of the time.
                *input = BytesMut::new();
            }
            read
        });
        if matches!(read.await, Ok(0) | Err(_)) {
            self.ended = true;
        }
    }

    /// Writes all that has to go out. Cancel-safe.
    ///
    /// # Errors
    /// When the other side is gone.
    pub(super) async fn write(&mut self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        while self.verbatim > 0 {
            let written = to.write(&self.input[..self.verbatim]).await?;
            self.input.advance(wrote(written)?);
            self.written.inc_by(written as u64);
            self.verbatim -= written;
            self.unflushed = true;
        }
        while !self.out.is_empty() {
            let written = to.write(&self.out).await?;
            self.out.advance(wrote(written)?);
            self.written.inc_by(written as u64);
            self.unflushed = true;
        }
        self.out = BytesMut::new();
        to.flush().await?;
        self.unflushed = false;
        Ok(())
    }

    /// Tells the other side that nothing more comes.
    pub(super) async fn shut(&mut self, to: &mut (impl AsyncWrite + Unpin)) {
        self.shut = true;
        let _ = to.shutdown().await;
    }
}

fn wrote(written: usize) -> io::Result<usize> {
    match written {
        0 => Err(io::ErrorKind::WriteZero.into()),
        written => Ok(written),
    }
}
