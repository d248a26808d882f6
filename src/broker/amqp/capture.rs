//! From a delivery of RabbitMQ to a captured message: what is kept, what is stripped, and what
//! its producer asked for.
//!
//! Stripped is only what capturing itself added: the counters of a quorum queue; the proxy's
//! [stamp](super::stamp), from which expiration, priority and BCC are restored; and, when the capture
//! queue dead-lettered the message, the marks of that, from which its own `expiration` is.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldArray, ShortString};

use super::properties;
use super::stamp::{BCC, BCC_CARRIED, STAMP, Stamp};
use crate::clock::{StoreClock, UnixMs};
use crate::delay::{self, Value, When, Wish};
use crate::message::{AmqpContent, Content, Reason, Uid};

/// How far a stamped due may lie beyond what the headers ask for, in milliseconds: clocks that were
/// read in two places differ a little.
const SKEW_MS: u64 = 1_000;

/// Reads captured messages.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    /// The store's clock, to tell how far an absolute due lies ahead.
    pub clock: Arc<StoreClock>,
    /// `delay.max`
    pub max_ms: u64,
}

/// A captured message, read.
pub(super) struct Captured {
    /// The same whenever this capture is delivered again, where the proxy stamped it.
    pub uid: Option<Uid>,
    pub content: Content,
    pub priority: u8,
    pub wish: Result<Wish, Reason>,
    pub delay_ms: Option<u64>,
}

impl Reader {
    /// Reads one message. `queue` is the capture queue that dead-lettered it, if one did.
    pub(super) fn read(
        &self,
        routing_key: &ShortString,
        properties: BasicProperties,
        body: Vec<u8>,
        rescued_from: Option<&str>,
    ) -> Captured {
        let now = self.clock.now();
        let stamp = stamp_of(&properties);
        let wish = delay::read(&headers(&properties), now, self.max_ms);
        let delay_ms = wish.as_ref().ok().and_then(|wish| delay_of(wish, now));
        let wish = wish.map(|wish| match &stamp {
            Some(stamp) => from_publish(wish, stamp, now),
            None => wish,
        });
        let properties = restore(strip(properties, rescued_from), stamp.as_ref());
        let priority = properties.priority().unwrap_or(0);
        let content = AmqpContent {
            routing_key: Bytes::copy_from_slice(routing_key.as_str().as_bytes()),
            properties: properties::encode(&properties),
            body: body.into(),
        };
        let uid = stamp.map(|stamp| stamp.uid(&content));
        Captured { uid, content: Content::Amqp(content), priority, wish, delay_ms }
    }
}

/// The stamp in a message's headers, if there is one that can be read.
fn stamp_of(properties: &BasicProperties) -> Option<Stamp> {
    match properties.headers().as_ref()?.inner().get(STAMP)? {
        AMQPValue::LongString(text) => Stamp::decode(text.as_bytes()),
        _ => None,
    }
}

/// A delay counts from the publish. A stamp that would make it end later than the header asks for
/// is not the proxy's.
fn from_publish(wish: Wish, stamp: &Stamp, now: UnixMs) -> Wish {
    match (wish, stamp.due) {
        (Wish::Hold(When::In(ms), id), Some(due)) if due <= now.saturating_add(ms + SKEW_MS) => {
            Wish::Hold(When::At(due), id)
        }
        (wish, _) => wish,
    }
}

/// Gives back what the stamp carried past the capture queue.
fn restore(properties: BasicProperties, stamp: Option<&Stamp>) -> BasicProperties {
    let Some(stamp) = stamp else { return properties };
    let properties = match stamp.priority {
        Some(priority) => properties.with_priority(priority),
        None => properties,
    };
    match stamp.expiration.as_deref().and_then(|text| ShortString::try_new(text).ok()) {
        Some(expiration) => properties.with_expiration(expiration),
        None => properties,
    }
}

/// The delay that a consumer is told, in milliseconds; at least one for what was due already.
fn delay_of(wish: &Wish, now: UnixMs) -> Option<u64> {
    match wish {
        Wish::Hold(When::In(ms) | When::Since { ms, .. }, _) => Some(*ms),
        Wish::Hold(When::At(due), _) => Some(due.saturating_sub(now).max(1)),
        Wish::Hold(When::AtOnce, _) | Wish::Cancel(_) => None,
    }
}

/// The headers that steer a delay.
fn headers(properties: &BasicProperties) -> delay::Headers<'_> {
    let Some(table) = properties.headers() else {
        return delay::Headers::default();
    };
    let value = |name: &str| table.inner().get(name).map(value);
    delay::Headers {
        delay: value(delay::DELAY),
        deliver_at: value(delay::DELIVER_AT),
        id: value(delay::DELAY_ID),
        cancel: value(delay::DELAY_CANCEL),
    }
}

fn value(value: &AMQPValue) -> Value<'_> {
    match value {
        AMQPValue::ShortShortInt(number) => Value::Integer(i64::from(*number)),
        AMQPValue::ShortShortUInt(number) => Value::Integer(i64::from(*number)),
        AMQPValue::ShortInt(number) => Value::Integer(i64::from(*number)),
        AMQPValue::ShortUInt(number) => Value::Integer(i64::from(*number)),
        AMQPValue::LongInt(number) => Value::Integer(i64::from(*number)),
        AMQPValue::LongUInt(number) => Value::Integer(i64::from(*number)),
        AMQPValue::LongLongInt(number) => Value::Integer(*number),
        AMQPValue::Float(number) => Value::Float(f64::from(*number)),
        AMQPValue::Double(number) => Value::Float(*number),
        AMQPValue::ShortString(text) => Value::Text(text.as_str().as_bytes()),
        AMQPValue::LongString(text) => Value::Text(text.as_bytes()),
        AMQPValue::ByteArray(bytes) => Value::Text(bytes.as_slice()),
        AMQPValue::Timestamp(seconds) => Value::Seconds(*seconds),
        AMQPValue::Boolean(_) => Value::Other("boolean"),
        AMQPValue::DecimalValue(_) => Value::Other("decimal"),
        AMQPValue::FieldArray(_) => Value::Other("array"),
        AMQPValue::FieldTable(_) => Value::Other("table"),
        AMQPValue::Void => Value::Other("void"),
    }
}

/// Removes what capturing added.
fn strip(properties: BasicProperties, rescued_from: Option<&str>) -> BasicProperties {
    let Some(table) = properties.headers() else {
        return properties;
    };
    let mut headers = table.inner().clone();
    let mut changed = headers.remove("x-delivery-count").is_some();
    changed |= headers.remove("x-acquired-count").is_some();
    changed |= headers.remove(STAMP).is_some();
    if let Some(copies) = headers.remove(BCC_CARRIED) {
        // Any other kind of value would make the broker refuse the release.
        if is_list_of_texts(&copies) {
            headers.insert(BCC.into(), copies);
        }
        changed = true;
    }
    let mut expiration = None;
    if let Some(queue) = rescued_from {
        expiration = unmark_death(&mut headers, queue);
        changed = true;
    }
    if !changed {
        return properties;
    }
    let properties = properties::with_headers(properties, headers);
    match expiration {
        Some(expiration) => properties.with_expiration(expiration),
        None => properties,
    }
}

/// Removes the marks that `queue` left when it dead-lettered the message; answers the expiration
/// that it had before.
fn unmark_death(
    headers: &mut BTreeMap<ShortString, AMQPValue>,
    queue: &str,
) -> Option<ShortString> {
    let Some(AMQPValue::FieldArray(deaths)) = headers.remove("x-death") else {
        return None;
    };
    let (ours, others): (Vec<_>, Vec<_>) =
        deaths.as_slice().iter().cloned().partition(|death| is_of(death, queue));
    let expiration = ours.iter().find_map(original_expiration);
    for mark in ["x-first-death-", "x-last-death-"] {
        let is_ours =
            headers.get(format!("{mark}queue").as_str()).is_some_and(|value| is_text(value, queue));
        if is_ours || others.is_empty() {
            for part in ["queue", "reason", "exchange"] {
                headers.remove(format!("{mark}{part}").as_str());
            }
        }
    }
    if !others.is_empty() {
        headers.insert("x-death".into(), AMQPValue::FieldArray(FieldArray::from(others)));
    }
    expiration
}

fn is_list_of_texts(value: &AMQPValue) -> bool {
    let is_text = |value: &AMQPValue| matches!(value, AMQPValue::LongString(_));
    matches!(value, AMQPValue::FieldArray(list) if list.as_slice().iter().all(is_text))
}

fn is_of(death: &AMQPValue, queue: &str) -> bool {
    field(death, "queue").is_some_and(|value| is_text(value, queue))
}

fn original_expiration(death: &AMQPValue) -> Option<ShortString> {
    match field(death, "original-expiration")? {
        AMQPValue::LongString(text) => {
            let text = std::str::from_utf8(text.as_bytes()).ok()?;
            ShortString::try_new(text).ok()
        }
        _ => None,
    }
}

fn field<'a>(death: &'a AMQPValue, name: &str) -> Option<&'a AMQPValue> {
    match death {
        AMQPValue::FieldTable(table) => table.inner().get(name),
        _ => None,
    }
}

fn is_text(value: &AMQPValue, expected: &str) -> bool {
    matches!(value, AMQPValue::LongString(text) if text.as_bytes() == expected.as_bytes())
}

/// Why the capture queue gave the message up, in the broker's word, when it did.
pub(super) fn death_reason(properties: &BasicProperties, queue: &str) -> Option<String> {
    let death = properties.headers().as_ref()?.inner().get("x-death")?;
    let AMQPValue::FieldArray(deaths) = death else {
        return None;
    };
    let ours = deaths.as_slice().iter().find(|death| is_of(death, queue))?;
    // A message that had an expiration of its own died by its producer's wish, not by a policy.
    let own_wish = field(ours, "original-expiration").is_some();
    match field(ours, "reason")? {
        AMQPValue::LongString(reason) if !own_wish => Some(reason.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
