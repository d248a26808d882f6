//! Consumes one capture queue, through every outage, and hands its messages to the intake.
//!
//! How many messages may be unacked at once is `intake.prefetch`, but no more than fit
//! `intake.memory`: whatever the broker sends is held, and 2000 messages of 16 MiB would be the end
//! of the process. So a consumer begins with few, learns how large they are, and only
//! then widens its window. It does that when its window is full and all in it is parked: at that
//! moment nothing can arrive, so a replica that takes over meanwhile cannot overtake us.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::capture::{self, Reader};
use super::captures::Captures;
use super::declare::{self, Mode};
use super::ledger::Ledger;
use super::link::Link;
use super::subscriber::{Channel, Delivered, Subscriber, Tag};
use super::term::{self, Term, Unbegun};
use super::topology;
use super::window::{self, Sizes};
use crate::broker::{Delivery, Receipt};
use crate::config::Front;
use crate::finding::Finding;
use crate::health::Health;
use crate::message::{AmqpContent, Destination, Reason, Uid};
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
    pub(super) fn destination(&self, exchange: &[u8]) -> Destination {
        match self {
            Self::Park(destination) => destination.clone(),
            // What was put into the rescue queue by hand has no destination but the queue itself,
            // where nothing is ever released to: it is kept for an operator.
            Self::Rescue => {
                let rescued_from =
                    std::str::from_utf8(exchange).ok().and_then(topology::rescued_from);
                Destination::amqp(rescued_from.unwrap_or(topology::RESCUE_QUEUE))
            }
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
    /// Declares, and looks at what is declared.
    pub declaring: Link,
    /// Consumes.
    pub link: Link<Subscriber>,
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
}

impl QueueConsumer {
    /// Runs until shutdown; what was handed out by then can still be acked until `drained`.
    pub(super) async fn run(self, mut stop: Shutdown, mut drained: Shutdown) {
        let mut backoff = Backoff::for_connections();
        let subject = self.queue.subject();
        while !stop.is_requested() {
            let End::Lost(why) = self.consume(&mut stop, &mut drained, &mut backoff).await else {
                return;
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
        let taking = async {
            let end = self.take(&channel, &ledger, stop, backoff).await;
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
        // Not the consumer first: another would be handed what comes later than what is still
        // unacked here.
        channel.close().await;
        end
    }

    async fn open(&self) -> Result<Channel, String> {
        if let Queue::Park(destination) = &self.queue {
            let Shared { declaring, front, mode, .. } = &*self.shared;
            declare::capture(declaring, &destination.name, *front, *mode)
                .await
                .map_err(|finding| finding.detail)?;
        }
        self.shared.link.connection().await?.channel().await
    }

    /// Takes deliveries window by window.
    async fn take(
        &self,
        channel: &Channel,
        ledger: &Arc<Ledger>,
        stop: &mut Shutdown,
        backoff: &mut Backoff,
    ) -> End {
        let mut window = self.shared.prefetch.min(window::UNKNOWN);
        loop {
            let consumer = match self.subscribe(channel, window).await {
                Ok(consumer) => consumer,
                Err(why) => return End::Lost(why),
            };
            let mut term = Term::new(self.queue.log(), window);
            backoff.reset();
            self.shared.health.report(Finding::good(self.queue.subject(), "consuming"));
            let taking = self.take_until_full(channel, ledger, &mut term, window);
            let next = tokio::select! {
                biased;
                () = stop.requested() => return End::Stopped,
                next = taking => next,
            };
            let next = match next {
                Ok(next) => next,
                Err(end) => return end,
            };
            let drained = tokio::select! {
                drained = self.drain((channel, &consumer), ledger, &mut term, window) => drained,
                () = stop.requested() => return End::Stopped,
            };
            if let Err(end) = drained {
                return end;
            }
            window = next;
        }
    }

    /// Hands out what comes until another window is wanted; answers which.
    async fn take_until_full(
        &self,
        channel: &Channel,
        ledger: &Arc<Ledger>,
        term: &mut Term,
        window: u16,
    ) -> Result<u16, End> {
        let mut sizes = Sizes::default();
        loop {
            let delivered = channel.delivered().await.map_err(End::Lost)?;
            delivered.iter().for_each(|delivered| sizes.add(delivered.body.len()));
            self.hand_out(delivered, ledger, channel, term).await?;
            if sizes.count() < usize::from(window) {
                continue;
            }
            let next = self.wanted(&sizes, window);
            if next != window {
                return Ok(next);
            }
            // Anew for every window: large messages must not drown in many small ones.
            sizes = Sizes::default();
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
        (channel, consumer): (&Channel, &Tag),
        ledger: &Arc<Ledger>,
        term: &mut Term,
        window: u16,
    ) -> Result<(), End> {
        ledger.withhold(true);
        let quiet = Duration::from_millis(200);
        while ledger.unacked() < usize::from(window) {
            match tokio::time::timeout(quiet, channel.delivered()).await {
                Ok(Ok(delivered)) => self.hand_out(delivered, ledger, channel, term).await?,
                Ok(Err(why)) => return Err(End::Lost(why)),
                Err(_) => break,
            }
        }
        ledger.all_secured().await;
        channel.cancel(consumer).await.map_err(End::Lost)?;
        self.hand_out(channel.left(), ledger, channel, term).await?;
        // The next subscription begins another term, in which none of these could be parked.
        ledger.all_secured().await;
        ledger.withhold(false);
        Ok(())
    }

    async fn subscribe(&self, channel: &Channel, window: u16) -> Result<Tag, String> {
        channel.qos(window).await?;
        channel.consume(&self.queue.name()).await
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

    /// Hands out what was delivered, in order.
    async fn hand_out(
        &self,
        delivered: Vec<Delivered>,
        ledger: &Arc<Ledger>,
        channel: &Channel,
        term: &mut Term,
    ) -> Result<(), End> {
        let tags = delivered.iter().map(|delivered| delivered.tag);
        ledger.delivered(tags).map_err(End::Lost)?;
        let mut batch = Vec::with_capacity(delivered.len());
        for delivered in delivered {
            let destination = self.queue.destination(&delivered.exchange);
            self.begin(term, &destination, delivered.tag, channel).await?;
            batch.push(self.read(delivered, destination, ledger, term));
        }
        while !batch.is_empty() {
            let count = batch.len().min(self.deliveries.max_capacity());
            let places = self.deliveries.reserve_many(count).await.map_err(|_| End::Stopped)?;
            places.zip(batch.drain(..count)).for_each(|(place, delivery)| place.send(delivery));
        }
        Ok(())
    }

    fn read(
        &self,
        delivered: Delivered,
        destination: Destination,
        ledger: &Arc<Ledger>,
        term: &mut Term,
    ) -> Delivery {
        let Delivered { tag, routing_key, properties, body, .. } = delivered;
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
        let sent = AmqpContent { routing_key, properties, body };
        let captured = self.shared.reader.read(sent, dead_in.as_deref());
        let uid = captured.uid.unwrap_or_else(Uid::fresh);
        let origin = term.origin(&destination, tag);
        let receipt = Receipt::new(uid.clone(), Arc::clone(ledger) as _, tag);
        Delivery {
            destination,
            uid,
            content: captured.content,
            priority: captured.priority,
            wish: if undestined { Err(undestined_reason()) } else { captured.wish },
            delay_ms: captured.delay_ms,
            origin: Some(origin),
            receipt,
        }
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
