//! One client's connection, and the one to the broker that was made for it.
//!
//! A single task carries both directions. While a publish waits for its capture, nothing more is
//! taken from the client, and the broker is told that the connection lives.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::{Instant, sleep_until, timeout};

use super::access::LoginRules;
use super::answers::Answers;
use super::destinations::Fate;
use super::frames::{BEAT, Kind, Violation};
use super::methods::{self, Code};
use super::pipe::Pipe;
use super::requests::{Event, Question, Requests, Rules, Stop};
use crate::metrics::ProxyMetrics;
use crate::shutdown::Shutdown;

/// Once one side has ended, how long the other may take.
const END_WITHIN: Duration = Duration::from_secs(10);
/// How long a client may take to hear why its connection ends.
const FAREWELL_WITHIN: Duration = Duration::from_secs(3);

/// What decides, and what can be asked where that is not known yet.
pub(super) trait Desk: Rules + Send + Sync + 'static {
    /// Finds it out, in bounded time.
    fn ask(self: Arc<Self>, question: Question) -> BoxFuture<'static, (Question, Fate)>;
}

/// A stream of bytes in both directions.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// One side closed it.
    Closed,
    /// It was not open in time.
    Late,
    /// What came is not AMQP.
    Violation(Violation),
    /// xdelay itself ends.
    Stopped,
}

/// Both directions.
pub(super) struct Connection<C, B, R> {
    from_client: ReadHalf<C>,
    to_client: WriteHalf<C>,
    from_broker: ReadHalf<B>,
    to_broker: WriteHalf<B>,
    desk: Arc<R>,
    requests: Requests<R>,
    answers: Answers,
    up: Pipe,
    down: Pipe,
    metrics: ProxyMetrics,
    /// Why nothing more is taken from the client for now.
    stop: Stop,
    asked: Option<BoxFuture<'static, (Question, Fate)>>,
    /// While something is asked: when the broker has to hear a heartbeat.
    beat_at: Option<Instant>,
}

impl<C: Stream, B: Stream, R: Desk> Connection<C, B, R> {
    /// Both have exchanged nothing yet but the protocol header.
    pub(super) fn new(
        client: C,
        broker: B,
        desk: Arc<R>,
        login: LoginRules,
        metrics: ProxyMetrics,
    ) -> Self {
        let (from_client, to_client) = tokio::io::split(client);
        let (from_broker, to_broker) = tokio::io::split(broker);
        Self {
            from_client,
            to_client,
            from_broker,
            to_broker,
            requests: Requests::new(Arc::clone(&desk), login),
            desk,
            answers: Answers::default(),
            up: Pipe::counted_by(metrics.bytes_to_broker()),
            down: Pipe::counted_by(metrics.bytes_to_client()),
            metrics,
            stop: Stop::More,
            asked: None,
            beat_at: None,
        }
    }

    /// Carries both directions until one ends. The handshake must be over by `open_by`.
    pub(super) async fn run(mut self, open_by: Instant, stop: &mut Shutdown) -> End {
        let end = self.carry(open_by, stop).await;
        let farewell = match end {
            End::Violation(Violation(Kind::Frame, what)) => Some((Code::FrameError, what)),
            End::Violation(Violation(Kind::Login, why)) => Some((Code::AccessRefused, why)),
            End::Stopped => Some((Code::ConnectionForced, "xdelay stops; connect again")),
            End::Closed | End::Late => None,
        };
        if let Some((code, why)) = farewell {
            let _ = timeout(FAREWELL_WITHIN, self.farewell(code, why)).await;
        }
        end
    }

    async fn carry(&mut self, open_by: Instant, stop: &mut Shutdown) -> End {
        let mut end_by = None;
        loop {
            if let Err(violation) = self.pass() {
                return End::Violation(violation);
            }
            if self.down.is_done() {
                self.down.shut(&mut self.to_client).await;
                return End::Closed;
            }
            if self.up.is_done() {
                self.up.shut(&mut self.to_broker).await;
            }
            if self.up.has_ended() && end_by.is_none() {
                end_by = Some(Instant::now() + END_WITHIN);
            }
            let wake = match end_by {
                Some(by) => Some(by),
                None if !self.answers.is_open() => Some(open_by),
                None => self.beat_at,
            };
            let hears_client = self.stop == Stop::More;
            tokio::select! {
                wrote = self.down.turn(&mut self.from_broker, &mut self.to_client, true) => {
                    if wrote.is_err() {
                        return End::Closed;
                    }
                }
                wrote = self.up.turn(&mut self.from_client, &mut self.to_broker, hears_client) => {
                    if wrote.is_err() {
                        // The broker may have said why: that is still read and passed on.
                        self.up.give_up();
                    }
                }
                (question, fate) = asked(&mut self.asked), if self.asked.is_some() => {
                    self.asked = None;
                    self.beat_at = None;
                    self.requests.answer(question, fate);
                    self.stop = Stop::More;
                }
                () = wait_until(wake), if wake.is_some() => match end_by {
                    Some(_) => return End::Closed,
                    None if !self.answers.is_open() => return End::Late,
                    None => {
                        self.requests.insert(&BEAT);
                        self.beat_at = self.next_beat();
                    }
                },
                () = stop.requested() => return End::Stopped,
            }
        }
    }

    /// Walks over what has come in, in both directions, where nothing has to go out first.
    fn pass(&mut self) -> Result<(), Violation> {
        self.pass_down()?;
        let held = matches!(self.stop, Stop::Ask(_)) && !self.requests.has_inserted();
        if !self.up.is_writing() && !held {
            let requests = &mut self.requests;
            self.stop = self.up.pass(|input, out| requests.pass(input, out))?;
            self.metrics.delayed(self.requests.take_delayed());
            if let (Stop::Ask(question), None) = (&self.stop, &self.asked) {
                self.asked = Some(Arc::clone(&self.desk).ask(question.clone()));
                self.beat_at = self.next_beat();
            }
            self.hear();
        }
        // What was decided above may have left something to tell.
        if self.answers.has_inserted() { self.pass_down() } else { Ok(()) }
    }

    fn pass_down(&mut self) -> Result<(), Violation> {
        if self.down.is_writing() {
            return Ok(());
        }
        let answers = &mut self.answers;
        self.down.pass(|input, out| Ok((answers.pass(input, out)?, ())))?;
        if self.answers.is_open() {
            self.requests.open();
        }
        for channel in self.answers.unanswered() {
            let mut frame = BytesMut::new();
            methods::write_channel_close_ok(&mut frame, channel);
            self.requests.insert(&frame);
        }
        Ok(())
    }

    /// Tells the client of what was decided about its channels.
    fn hear(&mut self) {
        for event in self.requests.events() {
            match event {
                Event::Refused(channel, method, why) => {
                    self.metrics.refused();
                    self.answers.close_channel(channel, method, &why);
                }
                Event::Closed(channel) => self.answers.confirm_close(channel),
            }
        }
    }

    /// When to tell the broker that the connection lives: twice as often as agreed.
    fn next_beat(&self) -> Option<Instant> {
        let seconds = u64::from(self.requests.heartbeat());
        (seconds > 0).then(|| Instant::now() + Duration::from_millis(seconds * 500))
    }

    /// Says why the connection ends, and waits until the client has heard it.
    async fn farewell(&mut self, code: Code, why: &str) {
        while self.down.is_writing() {
            let writing = self.down.turn(&mut self.from_broker, &mut self.to_client, false);
            if writing.await.is_err() {
                return;
            }
        }
        if !self.answers.is_between_frames() {
            return;
        }
        let mut close = BytesMut::new();
        methods::write_connection_close(&mut close, code, why);
        if self.to_client.write_all(&close).await.is_err() || self.to_client.flush().await.is_err()
        {
            return;
        }
        // Closing a socket that has unread bytes would reset it, and the client lose what it was told.
        let mut unread = [0; 4_096];
        while matches!(self.from_client.read(&mut unread).await, Ok(1..)) {}
    }
}

async fn asked(asked: &mut Option<BoxFuture<'static, (Question, Fate)>>) -> (Question, Fate) {
    match asked {
        Some(asked) => asked.await,
        None => std::future::pending().await,
    }
}

async fn wait_until(wake: Option<Instant>) {
    match wake {
        Some(wake) => sleep_until(wake).await,
        None => std::future::pending().await,
    }
}
