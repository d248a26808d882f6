//! Sets aside messages that lapin cannot decode.
//!
//! RabbitMQ takes and delivers header names and short strings that are not UTF-8. lapin ends its
//! whole connection over one, the broker delivers it again, and the queue stands still for ever.
//! So after such an end the queue is read by [`super::raw`], which decodes nothing: what lapin
//! could not read is handed on, bytes as they are, to be buried with the reason; all else goes
//! back to the queue untouched.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use super::consumer::QueueConsumer;
use super::link::ANSWER_WITHIN;
use super::node;
use super::raw::{RawConsumer, RawDelivery, RawError};
use crate::broker::{self, Delivery, Receipt};
use crate::message::{AmqpContent, Content, Reason, Uid};
use crate::shutdown::Shutdown;

/// After this long without a delivery, all that lapin would have been sent has been seen.
const QUIET: Duration = Duration::from_secs(1);
/// How long is looked in all: a queue that is being filled would never be quiet.
const SCAN_WITHIN: Duration = Duration::from_secs(5);
/// How long the store may take to bury what was found, before the queue gets it back.
const BURY_WITHIN: Duration = Duration::from_secs(60);

/// Sets aside all undecodable messages among those that lapin would be sent; answers how many.
///
/// # Errors
/// Why the queue could not be read; its messages are where they were.
pub(super) async fn sweep(queue: &QueueConsumer, stop: &mut Shutdown) -> Result<usize, String> {
    let words = |error: RawError| error.to_string();
    let prefetch = queue.shared.prefetch;
    let name = queue.queue.name();
    let mut raw = open(queue, &name, prefetch).await?;
    let buried = Arc::new(Buried::default());
    let mut found = 0;
    let scan_until = tokio::time::Instant::now() + SCAN_WITHIN;
    for _ in 0..prefetch {
        if stop.is_requested() || tokio::time::Instant::now() >= scan_until {
            break;
        }
        let Some(delivery) = raw.next(QUIET).await.map_err(words)? else {
            break;
        };
        if let Some(why) = delivery.undecodable() {
            tracing::warn!(queue = name, why, "sets a message aside that cannot be decoded");
            found += 1;
            hand_out(queue, delivery, why, &buried).await;
        }
    }
    let deadline = tokio::time::Instant::now() + BURY_WITHIN;
    let mut acked = 0;
    while acked < found && tokio::time::Instant::now() < deadline && !stop.is_requested() {
        for tag in buried.take() {
            raw.ack(tag).await.map_err(words)?;
            acked += 1;
        }
        // Also keeps the heartbeat going while the store is slow.
        let _ = raw.next(Duration::from_millis(20)).await.map_err(words)?;
    }
    raw.close().await.map_err(words)?;
    Ok(acked)
}

/// The raw consumer on the first node that answers.
async fn open(queue: &QueueConsumer, name: &str, prefetch: u16) -> Result<RawConsumer, String> {
    let mut why = "no node is named".to_owned();
    for node in queue.shared.link.nodes() {
        let raw = RawConsumer::open(&node, "xdelay quarantine", name, prefetch, ANSWER_WITHIN);
        match raw.await {
            Ok(raw) => return Ok(raw),
            Err(error) => why = node::words(&error),
        }
    }
    Err(why)
}

async fn hand_out(queue: &QueueConsumer, raw: RawDelivery, why: String, buried: &Arc<Buried>) {
    let exchange = String::from_utf8_lossy(&raw.exchange);
    let uid = Uid::fresh();
    let receipt = Receipt::new(uid.clone(), Arc::clone(buried) as _, raw.tag);
    let delivery = Delivery {
        destination: queue.queue.destination(&exchange),
        uid,
        content: Content::Amqp(AmqpContent {
            routing_key: Bytes::from(raw.routing_key),
            properties: Bytes::from(raw.properties),
            body: Bytes::from(raw.body),
        }),
        priority: 0,
        wish: Err(Reason::new("undecodable", why)),
        delay_ms: None,
        origin: None,
        receipt,
    };
    // A closed channel means shutdown: then nothing is acked.
    let _ = queue.deliveries.send(delivery).await;
}

/// The tags of what is safely buried, until they are acked.
#[derive(Debug, Default)]
struct Buried(Mutex<Vec<u64>>);

impl Buried {
    fn take(&self) -> Vec<u64> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl broker::Ledger for Buried {
    fn secured(&self, tag: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(tag);
    }

    fn is_void(&self) -> bool {
        false
    }
}
