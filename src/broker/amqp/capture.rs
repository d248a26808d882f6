//! From a delivery of RabbitMQ to a captured message: what is kept, what is stripped, and what
//! its producer asked for.
//!
//! Read are the few headers that steer a delay, in the bytes they came in; everything else is
//! carried unread, so that what no decoder understands is released as it was sent. Stripped is
//! only what capturing itself added: the counters of a quorum queue; the proxy's
//! [stamp](super::stamp), from which expiration, priority and BCC are restored; and, when the capture
//! queue dead-lettered the message, the marks of that, from which its own `expiration` is.

mod death;

use std::sync::Arc;

use bytes::Bytes;

use self::death::Death;
pub(super) use self::death::death_reason;
use super::stamp::{BCC, BCC_CARRIED, STAMP, Stamp};
use crate::clock::{StoreClock, UnixMs};
use crate::delay::{self, When, Wish};
use crate::message::amqp::property_list::{Property, PropertyList};
use crate::message::amqp::table::{self, Field, Malformed};
use crate::message::{AmqpContent, Content, Reason, Uid};

/// How far a stamped due may lie beyond what the headers ask for, in milliseconds: clocks that were
/// read in two places differ a little.
const SKEW_MS: u64 = 1_000;

/// What a quorum queue counts with.
const DELIVERY_COUNT: &str = "x-delivery-count";
const ACQUIRED_COUNT: &str = "x-acquired-count";

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
    /// Reads one message. `rescued_from` is the capture queue that dead-lettered it, if one did.
    pub(super) fn read(&self, sent: AmqpContent, rescued_from: Option<&str>) -> Captured {
        self.try_read(&sent, rescued_from).unwrap_or_else(|Malformed| {
            let why = "its properties are none: they are kept as they came";
            Captured {
                uid: None,
                content: Content::Amqp(sent),
                priority: 0,
                wish: Err(Reason::new("undecodable", why)),
                delay_ms: None,
            }
        })
    }

    fn try_read(
        &self,
        sent: &AmqpContent,
        rescued_from: Option<&str>,
    ) -> Result<Captured, Malformed> {
        let now = self.clock.now();
        let list = PropertyList::read(&sent.properties)?;
        let Steering { wish, stamp, is_marked } = Steering::read(list.headers())?;
        let wish = delay::read(&wish, now, self.max_ms);
        let delay_ms = wish.as_ref().ok().and_then(|wish| delay_of(wish, now));
        let wish = wish.map(|wish| match &stamp {
            Some(stamp) => from_publish(wish, stamp, now),
            None => wish,
        });
        let mut content = sent.clone();
        if is_marked || rescued_from.is_some() {
            content.properties = unmarked(&list, stamp.as_ref(), rescued_from)?;
        }
        let restored = stamp.as_ref().and_then(|stamp| stamp.priority);
        let own = || list.get(Property::Priority).map(|priority| priority[0]);
        let priority = restored.or_else(own).unwrap_or(0);
        let uid = match stamp {
            Some(stamp) => Some(stamp.uid(&sorted(&content)?)),
            None => None,
        };
        Ok(Captured { uid, content: Content::Amqp(content), priority, wish, delay_ms })
    }
}

/// The headers that say what becomes of a message. Of several of one name the last one counts.
#[derive(Default)]
struct Steering<'a> {
    wish: delay::Headers<'a>,
    stamp: Option<Stamp>,
    /// Whether there is anything that capturing added.
    is_marked: bool,
}

impl<'a> Steering<'a> {
    fn read(headers: &'a [u8]) -> Result<Self, Malformed> {
        let mut found = Self::default();
        for field in table::fields(headers) {
            let Field { name, kind, value } = field?;
            let name = &headers[name];
            if !name.starts_with(b"x-") {
                continue;
            }
            let bytes = &headers[value];
            let value = || Some(table::value(kind, bytes));
            match std::str::from_utf8(name) {
                Ok(delay::DELAY) => found.wish.delay = value(),
                Ok(delay::DELIVER_AT) => found.wish.deliver_at = value(),
                Ok(delay::DELAY_ID) => found.wish.id = value(),
                Ok(delay::DELAY_CANCEL) => found.wish.cancel = value(),
                Ok(STAMP) => {
                    found.stamp = table::text(kind, bytes).and_then(Stamp::decode);
                    found.is_marked = true;
                }
                Ok(BCC_CARRIED | DELIVERY_COUNT | ACQUIRED_COUNT) => found.is_marked = true,
                _ => {}
            }
        }
        Ok(found)
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

/// The delay that a consumer is told, in milliseconds; at least one for what was due already.
fn delay_of(wish: &Wish, now: UnixMs) -> Option<u64> {
    match wish {
        Wish::Hold(When::In(ms) | When::Since { ms, .. }, _) => Some(*ms),
        Wish::Hold(When::At(due), _) => Some(due.saturating_sub(now).max(1)),
        Wish::Hold(When::AtOnce, _) | Wish::Cancel(_) => None,
    }
}

/// The properties without what capturing added, and with what it took away.
fn unmarked(
    list: &PropertyList<'_>,
    stamp: Option<&Stamp>,
    rescued_from: Option<&str>,
) -> Result<Bytes, Malformed> {
    let headers = list.headers();
    let death = rescued_from.map(|queue| Death::read(headers, queue)).transpose()?;
    let priority = stamp.and_then(|stamp| stamp.priority).map(|priority| [priority]);
    let stamped = stamp.and_then(|stamp| stamp.expiration.as_deref()).map(str::as_bytes);
    let expiration = stamped.or_else(|| death.as_ref()?.expiration).and_then(short);
    let mut changes = Vec::new();
    changes.extend(priority.as_ref().map(|it| (Property::Priority, Some(&it[..]))));
    changes.extend(expiration.as_ref().map(|it| (Property::Expiration, Some(&it[..]))));
    let mut out = Vec::with_capacity(list.len());
    list.write(&mut out, &changes, |out| push_unmarked(out, headers, death.as_ref()))?;
    Ok(out.into())
}

fn push_unmarked(
    out: &mut Vec<u8>,
    headers: &[u8],
    death: Option<&Death<'_>>,
) -> Result<(), Malformed> {
    for field in table::fields(headers) {
        let field = field?;
        match std::str::from_utf8(&headers[field.name.clone()]) {
            Ok(STAMP | DELIVERY_COUNT | ACQUIRED_COUNT) => {}
            // Any other kind of value would make the broker refuse the release.
            Ok(BCC_CARRIED) => {
                let is_texts = |list: &[u8]| field.kind == b'A' && table::is_texts(&list[4..]);
                if is_texts(&headers[field.value.clone()]) {
                    table::push_name(out, BCC);
                    out.push(field.kind);
                    out.extend_from_slice(&headers[field.value]);
                }
            }
            Ok(name) if death.is_some_and(|death| death.marks(name)) => {}
            Ok(death::DEATHS) if death.is_some() => {
                let queue = death.map_or("", |death| death.queue);
                death::push_others(out, &field, headers, queue)?;
            }
            _ => out.extend_from_slice(&headers[field.whole()]),
        }
    }
    Ok(())
}

/// Text with its length before it, in one byte.
fn short(text: &[u8]) -> Option<Vec<u8>> {
    let length = u8::try_from(text.len()).ok()?;
    Some([&[length], text].concat())
}

/// The same message with its headers in the order of their names: RabbitMQ may put them in another
/// order when it adds one to a message that it delivers again.
fn sorted(content: &AmqpContent) -> Result<AmqpContent, Malformed> {
    let list = PropertyList::read(&content.properties)?;
    let headers = list.headers();
    let mut fields: Vec<Field> = table::fields(headers).collect::<Result<_, _>>()?;
    let name = |field: &Field| &headers[field.name.clone()];
    if fields.is_sorted_by_key(name) {
        return Ok(content.clone());
    }
    fields.sort_by(|one, other| name(one).cmp(name(other)));
    let mut out = Vec::with_capacity(list.len());
    list.write(&mut out, &[], |out| {
        fields.iter().for_each(|field| out.extend_from_slice(&headers[field.whole()]));
        Ok(())
    })?;
    Ok(AmqpContent { properties: out.into(), ..content.clone() })
}

#[cfg(test)]
mod tests;
