//! Consumes one capture queue, through every outage, and hands its messages to the intake.
//!
//! How many messages may be unacked at once is `intake.prefetch`, but no more than fit
//! `intake.memory`: lapin buffers whatever the broker sends, and 2000 messages of 16 MiB would
//! be the end of the process. So a consumer begins with few, learns how large they are, and only
//! then widens its window. It does that when its window is full and all in it is parked: at that
//! moment nothing can arrive, so a replica that takes over meanwhile cannot overtake us.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use lapin::options::{BasicCancelOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::{FieldTable, ShortString};
use lapin::{Channel, Consumer, ErrorKind, message};
use tokio::sync::mpsc;

use super::capture::{self, Reader};
use super::captures::Captures;
use super::client::answer;
use super::declare::{self, Mode};
use super::ledger::Ledger;
use super::link::Link;
use super::term::{self, Term, Unbegun};
use super::window::{self, Sizes};
use super::{quarantine, topology};
use crate::broker::{Delivery, Receipt};
use crate::config::Front;
use crate::finding::Finding;
use crate::health::Health;
use crate::message::{Destination, Reason, Uid};
use crate::retry::Backoff;
use crate::shutdown::Shutdown;
use crate::store::Store;

/// How long a policy that dropped a message keeps `/ready` failing after the last one.
const POLICY_REMEMBERED: Duration = Duration::from_secs(600);

/// Which queue is consumed, and for whom.
#[derive(Clone, Debug)]
pub(super) enum Queue {
    /// The capture queue of a destination.
    Park(Destination),
    /// What any capture queue gave up.
    Rescue,
}

impl Queue {
    pub(super) fn name(&self) -> String {
        match self {
            Self::Park(destination) => topology::park(&destination.name),
            Self::Rescue => topology::RESCUE_QUEUE.to_owned(),
        }
    }

    /// Which log of its destinations it is to the store.
    fn log(&self) -> u32 {
        match self {
            Self::Park(_) => term::PARK,
            Self::Rescue => term::RESCUE,
        }
    }

    /// The part of health that tells whether it is consumed.
    pub(super) fn subject(&self) -> String {
        format!("capture {}", self.name())
    }

    /// Where a message of this queue was bound for. The topology says that, never a header.
    pub(super) fn destination(&self, exchange: &str) -> Destination {
        match self {
            Self::Park(destination) => destination.clone(),
            // What was put into the rescue queue by hand has no destination but the queue itself,
            // where nothing is ever released to: it is kept for an operator.
            Self::Rescue => Destination::amqp(
                topology::rescued_from(exchange).unwrap_or(topology::RESCUE_QUEUE),
            ),
        }
    }
}

/// The queues to consume: each destination's, and the one for what those gave up.
pub(super) fn queues(exchanges: &[String]) -> impl Iterator<Item = Queue> + '_ {
    let parks = exchanges.iter().map(|exchange| Queue::Park(Destination::amqp(exchange)));
    let rescue = (!exchanges.is_empty()).then_some(Queue::Rescue);
    parks.chain(rescue)
}

/// What all consumers of one broker share.
pub(super) struct Shared {
    pub link: Link,
    pub reader: Reader,
    pub front: Front,
    pub mode: Mode,
    pub prefetch: u16,
    /// Bytes that all consumers together may have unacked.
    pub memory: u64,
    pub captures: Captures,
    /// Where terms begin.
    pub store: Arc<dyn Store>,
    pub health: Arc<Health>,
}

/// Consumes one queue.
pub(super) struct QueueConsumer {
    pub shared: Arc<Shared>,
    pub queue: Queue,
    pub deliveries: mpsc::Sender<Delivery>,
}

/// Why consuming ended.
enum End {
    /// Shutdown.
    Stopped,
    /// Something that may be better next time.
    Lost(String),
    /// lapin could not decode what the broker sent.
    Undecodable(String),
}

impl QueueConsumer {
    /// Runs until shutdown; what was handed out by then can still be acked until `drained`.
    pub(super) async fn run(self, mut stop: Shutdown, mut drained: Shutdown) {
        let mut backoff = Backoff::for_connections();
        let subject = self.queue.subject();
        while !stop.is_requested() {
            let end = self.consume(&mut stop, &mut drained, &mut backoff).await;
            let why = match end {
                End::Stopped => return,
                End::Lost(why) => why,
                End::Undecodable(why) => {
                    let undecodable = format!("looks for what cannot be decoded: {why}");
                    self.shared.health.report(Finding::bad(&*subject, undecodable));
                    let swept = quarantine::sweep(&self, &mut stop).await;
                    swept.map_or(why, |swept| format!("{swept} set aside"))
                }
            };
            self.shared.health.report(Finding::bad(&*subject, why));
            tokio::select! {
                () = tokio::time::sleep(backoff.failed()) => {}
                () = stop.requested() => return,
            }
        }
    }

    async fn consume(
        &self,
        stop: &mut Shutdown,
        drained: &mut Shutdown,
        backoff: &mut Backoff,
    ) -> End {
        let channel = match self.open().await {
            Ok(channel) => channel,
            Err(why) => return End::Lost(why),
        };
        let ledger = Arc::new(Ledger::new());
        let telling = ledger.keep_telling(&channel);
        // Outlives the channel: who is cancelled before it lets another consume what comes later
        // than what is still unacked here.
        let mut consumer = None;
        let taking = async {
            let end = self.take((&channel, &mut consumer), &ledger, stop, backoff).await;
            if matches!(end, End::Stopped) {
                ledger.withhold(false);
                // Acks go on until the intake has drained.
                drained.requested().await;
                ledger.all_told().await;
            }
            end
        };
        let end = tokio::select! {
            end = taking => end,
            told = telling => End::Lost(told.err().unwrap_or_else(|| why_gone(&ledger).into())),
        };
        ledger.close();
        if channel.status().connected() {
            let _ = answer("closing a channel", channel.close(200, "bye".into())).await;
        }
        end
    }

    async fn open(&self) -> Result<Channel, String> {
        if let Queue::Park(destination) = &self.queue {
            let Shared { link, front, mode, .. } = &*self.shared;
            declare::capture(link, &destination.name, *front, *mode)
                .await
                .map_err(|finding| finding.detail)?;
        }
        self.shared.link.channel().await
    }

    /// Takes deliveries window by window.
    async fn take(
        &self,
        (channel, held): (&Channel, &mut Option<Consumer>),
        ledger: &Arc<Ledger>,
        stop: &mut Shutdown,
        backoff: &mut Backoff,
    ) -> End {
        let mut window = self.shared.prefetch.min(window::UNKNOWN);
        loop {
            let consumer = match self.subscribe(channel, window).await {
                Ok(consumer) => held.insert(consumer),
                Err(why) => return End::Lost(why),
            };
            let mut term = Term::new(self.queue.log(), window);
            backoff.reset();
            self.shared.health.report(Finding::good(self.queue.subject(), "consuming"));
            let mut sizes = Sizes::default();
            loop {
                let delivery = tokio::select! {
                    biased;
                    () = stop.requested() => return End::Stopped,
                    delivery = consumer.next() => delivery,
                };
                match delivery {
                    Some(Ok(delivery)) => {
                        sizes.add(delivery.data.len());
                        let handed_out = tokio::select! {
                            it = self.hand_out(delivery, ledger, channel, &mut term) => it,
                            () = stop.requested() => return End::Stopped,
                        };
                        if let Err(end) = handed_out {
                            return end;
                        }
                    }
                    Some(Err(error)) => return end_of(&error),
                    None => return End::Lost("the broker cancelled the consumer".into()),
                }
                if sizes.count() < usize::from(window) {
                    continue;
                }
                if self.wanted(&sizes, window) != window {
                    break;
                }
                // Anew for every window: large messages must not drown in many small ones.
                sizes = Sizes::default();
            }
            let next = self.wanted(&sizes, window);
            let drained = tokio::select! {
                drained = self.drain((channel, consumer), ledger, &mut term, window) => drained,
                () = stop.requested() => return End::Stopped,
            };
            if let Err(end) = drained {
                return end;
            }
            window = next;
        }
    }

    /// The window for messages of these sizes: what fits this consumer's share of the memory.
    fn wanted(&self, sizes: &Sizes, window: u16) -> u16 {
        let Shared { memory, captures, prefetch, .. } = &*self.shared;
        sizes.wanted(window, *prefetch, memory / (captures.count() as u64 + 1))
    }

    /// Fills the window without acking, waits until all in it is safe, and only then ends the
    /// consumer: nothing of ours is on its way to the store when another may take over.
    async fn drain(
        &self,
        (channel, consumer): (&Channel, &mut Consumer),
        ledger: &Arc<Ledger>,
        term: &mut Term,
        window: u16,
    ) -> Result<(), End> {
        ledger.withhold(true);
        let quiet = Duration::from_millis(200);
        while ledger.unacked() < usize::from(window) {
            match tokio::time::timeout(quiet, consumer.next()).await {
                Ok(Some(Ok(delivery))) => {
                    self.hand_out(delivery, ledger, channel, term).await?;
                }
                Ok(Some(Err(error))) => return Err(end_of(&error)),
                Ok(None) => return Err(End::Lost("the broker cancelled the consumer".into())),
                Err(_) => break,
            }
        }
        ledger.all_secured().await;
        let cancel = channel.basic_cancel(consumer.tag(), BasicCancelOptions::default());
        answer("basic.cancel", cancel).await.map_err(End::Lost)?;
        while let Some(Ok(delivery)) = consumer.next().await {
            self.hand_out(delivery, ledger, channel, term).await?;
        }
        // The next subscription begins another term, in which none of these could be parked.
        ledger.all_secured().await;
        ledger.withhold(false);
        Ok(())
    }

    async fn subscribe(&self, channel: &Channel, window: u16) -> Result<Consumer, String> {
        answer("basic.qos", channel.basic_qos(window, BasicQosOptions::default())).await?;
        let queue = ShortString::try_new(self.queue.name()).map_err(|error| error.to_string())?;
        let consume = channel.basic_consume(
            queue,
            "".into(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        );
        answer("basic.consume", consume).await
    }

    /// Begins the term, however long the store is away: until then nothing is handed out, and the
    /// broker keeps it.
    async fn begin(
        &self,
        term: &mut Term,
        destination: &Destination,
        tag: u64,
        channel: &Channel,
    ) -> Result<(), End> {
        let subject = format!("intake {destination}");
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));
        loop {
            match term.begin(destination, tag, &*self.shared.store, channel).await {
                Ok(()) if backoff.failures() == 0 => return Ok(()),
                Ok(()) => {
                    self.shared.health.report(Finding::good(subject, "parks again"));
                    return Ok(());
                }
                Err(Unbegun::Channel(why)) => return Err(End::Lost(why)),
                Err(Unbegun::Store(why)) => {
                    let detail =
                        format!("nothing is parked, the broker keeps what comes in: {why}");
                    self.shared.health.report(Finding::bad(&*subject, detail));
                    tokio::time::sleep(backoff.failed()).await;
                }
            }
        }
    }

    async fn hand_out(
        &self,
        delivery: message::Delivery,
        ledger: &Arc<Ledger>,
        channel: &Channel,
        term: &mut Term,
    ) -> Result<(), End> {
        let message::Delivery { delivery_tag, exchange, routing_key, properties, data, .. } =
            delivery;
        let destination = self.queue.destination(exchange.as_str());
        let undestined = &*destination.name == topology::RESCUE_QUEUE;
        let dead_in = match self.queue {
            Queue::Park(_) => None,
            Queue::Rescue => Some(topology::park(&destination.name)),
        };
        if let Some(queue) = &dead_in
            && let Some(reason) = capture::death_reason(&properties, queue)
        {
            self.warn_of_policy(queue, &reason);
        }
        let captured = self.shared.reader.read(&routing_key, properties, data, dead_in.as_deref());
        let uid = captured.uid.unwrap_or_else(Uid::fresh);
        if !ledger.delivered(delivery_tag) {
            return Err(End::Lost(format!("delivery {delivery_tag} came out of turn")));
        }
        self.begin(term, &destination, delivery_tag, channel).await?;
        let origin = term.origin(&destination, delivery_tag);
        let receipt = Receipt::new(uid.clone(), Arc::clone(ledger) as _, delivery_tag);
        let delivery = Delivery {
            destination,
            uid,
            content: captured.content,
            priority: captured.priority,
            wish: if undestined { Err(undestined_reason()) } else { captured.wish },
            delay_ms: captured.delay_ms,
            origin: Some(origin),
            receipt,
        };
        let sent = self.deliveries.send(delivery).await;
        sent.map_err(|_| End::Stopped)
    }

    /// A capture queue gave up a message that asked for no expiration: a policy drops messages
    /// there. A client cannot see policies, but this is what one does.
    fn warn_of_policy(&self, queue: &str, reason: &str) {
        let detail = format!(
            "{queue} gave up a message ({reason}), which was rescued: a policy limits it. Find it \
             with `rabbitmqctl list_queues name policy effective_policy_definition` and remove \
             its overflow, max-length, message-ttl and delivery-limit for queues `xdelay.*`"
        );
        let finding = Finding::bad(format!("policy {queue}"), detail);
        self.shared.health.report_for(finding, POLICY_REMEMBERED);
    }
}

fn why_gone(ledger: &Ledger) -> &'static str {
    if ledger.is_moved() {
        "the store parks for another consumer of it, or was emptied or rolled back: consumes anew"
    } else {
        "the channel is gone"
    }
}

fn undestined_reason() -> Reason {
    Reason::new(
        "undestined",
        "it was put into the rescue queue by hand: nobody knows where it goes",
    )
}

fn end_of(error: &lapin::Error) -> End {
    match error.kind() {
        ErrorKind::ParsingError(_) => End::Undecodable(error.to_string()),
        _ => End::Lost(error.to_string()),
    }
}
