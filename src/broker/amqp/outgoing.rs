//! From a parked message to what is published: as it was sent, but for the few headers that tell
//! a consumer what happened to it.

use bytes::Bytes;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, ShortString};

use super::properties;
use crate::delay;
use crate::message::{AmqpContent, Content, ProducerId, Reason};
use crate::store::Lease;

/// Unique per parked message: what a consumer drops duplicates by, and what we know returned
/// messages by.
pub(super) const DELAYED_UID: &str = "x-delayed-uid";
const DELAYED_DUE: &str = "x-delayed-due";
const DELAYED_ID: &str = "x-delayed-id";
const DELAYED_USER_ID: &str = "x-delayed-user-id";

/// Bytes of a content header frame besides properties: frame, class, weight and body size.
const HEADER_FRAME_OVERHEAD: usize = 20;
/// More than what is added to a message's headers: the longest id and user id included.
const OURS_BYTES_MAX: usize = 1_024;

/// A message ready to be published.
pub(super) struct Outgoing {
    pub uid: String,
    pub routing_key: ShortString,
    pub properties: BasicProperties,
    pub body: Bytes,
    /// Bytes that its properties had when it was captured.
    sent_bytes: usize,
}

impl Outgoing {
    /// Whether its content header fits a frame of so many bytes. Only one that was large already
    /// is worth the encoding that tells exactly.
    pub(super) fn fits(&self, frame_max: usize) -> bool {
        let room = frame_max.saturating_sub(HEADER_FRAME_OVERHEAD);
        self.sent_bytes + OURS_BYTES_MAX <= room
            || properties::encode(&self.properties).len() <= room
    }
}

/// Prepares a leased message.
///
/// # Errors
/// Why it can never be published by lapin.
pub(super) fn outgoing(lease: &Lease) -> Result<Outgoing, Reason> {
    let undecodable = |why: String| Reason::new("undecodable", why);
    let message = lease.message();
    let Content::Amqp(AmqpContent { routing_key, properties, body }) = &message.content else {
        return Err(undecodable("it was not captured from RabbitMQ".into()));
    };
    let routing_key = std::str::from_utf8(routing_key)
        .ok()
        .and_then(|key| ShortString::try_new(key).ok())
        .ok_or_else(|| undecodable("its routing key is not UTF-8".into()))?;
    let sent = properties::decode(properties).map_err(undecodable)?;
    let uid = message.uid.to_string();
    let sent_bytes = properties.len();
    let properties = mark(sent, &uid, lease.due(), message.delay_ms, message.id.as_ref());
    Ok(Outgoing { uid, routing_key, properties, body: body.clone(), sent_bytes })
}

fn mark(
    sent: BasicProperties,
    uid: &str,
    due: u64,
    delay_ms: Option<u64>,
    id: Option<&ProducerId>,
) -> BasicProperties {
    let mut headers =
        sent.headers().as_ref().map(|table| table.inner().clone()).unwrap_or_default();
    // A consumer that copies headers into a retry must not replace or re-time by accident, nor
    // pass on what was said of the first message.
    for name in
        [delay::DELIVER_AT, delay::DELAY_CANCEL, delay::DELAY_ID, DELAYED_ID, DELAYED_USER_ID]
    {
        headers.remove(name);
    }
    headers.insert(DELAYED_UID.into(), text(uid));
    headers.insert(DELAYED_DUE.into(), number(due));
    if let Some(id) = id {
        headers.insert(DELAYED_ID.into(), text(id.as_str()));
    }
    if let Some(delay_ms) = delay_ms {
        headers.insert(delay::DELAY.into(), negated(delay_ms));
    }
    let mut properties = sent;
    if let Some(user) = properties.user_id().clone() {
        headers.insert(DELAYED_USER_ID.into(), text(user.as_str()));
        properties = properties::without_user_id(properties);
    }
    properties::with_headers(properties, headers)
}

/// At most -1, so that it is never delayed again. Of 32 bits where that is enough: pika reads
/// negative numbers of 64 bits as huge positive ones.
fn negated(delay_ms: u64) -> AMQPValue {
    let delay_ms = delay_ms.max(1);
    match i32::try_from(delay_ms) {
        Ok(delay_ms) => AMQPValue::LongInt(-delay_ms),
        Err(_) => AMQPValue::LongLongInt(-i64::try_from(delay_ms).unwrap_or(i64::MAX)),
    }
}

fn number(number: u64) -> AMQPValue {
    AMQPValue::LongLongInt(i64::try_from(number).unwrap_or(i64::MAX))
}

fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

/// The uid in the headers of a message that came back.
pub(super) fn uid_of(properties: &BasicProperties) -> Option<String> {
    match properties.headers().as_ref()?.inner().get(DELAYED_UID)? {
        AMQPValue::LongString(uid) => Some(uid.to_string()),
        _ => None,
    }
}
