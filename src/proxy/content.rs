//! Content headers: the properties of a message, found and changed in the bytes they travel in.

use std::ops::Range;

use super::table::{self, Malformed};
use crate::broker::amqp::stamp::{BCC, BCC_CARRIED, STAMP, Stamp, is_expiration};
use crate::clock::UnixMs;
use crate::delay::{self, Value, When, Wish};

/// Class, weight and body size, before the flags.
const FIXED: usize = 12;
/// Which properties there are: a bit each, from the highest on.
const COUNT: usize = 14;
const HEADERS: usize = 2;
const PRIORITY: usize = 4;
const EXPIRATION: usize = 7;

/// How a property is written.
#[derive(Clone, Copy)]
enum Kind {
    Short,
    Table,
    Octet,
    Timestamp,
}

/// content-type, content-encoding, headers, delivery-mode, priority, correlation-id, reply-to,
/// expiration, message-id, timestamp, type, user-id, app-id, cluster-id.
const KINDS: [Kind; COUNT] = {
    use Kind::{Octet, Short, Table, Timestamp};
    [
        Short, Short, Table, Octet, Octet, Short, Short, Short, Short, Timestamp, Short, Short,
        Short, Short,
    ]
};

/// The payload of a content header frame, its properties found.
#[derive(Debug)]
pub(super) struct Content<'a> {
    payload: &'a [u8],
    flags: u16,
    properties: [Option<Range<usize>>; COUNT],
}

impl<'a> Content<'a> {
    /// The headers of a message without a table of them, which most are, cannot ask for a delay.
    pub(super) fn has_headers(payload: &[u8]) -> bool {
        payload.get(FIXED).is_some_and(|flags| flags & 0x20 != 0)
    }

    /// Finds the properties.
    pub(super) fn read(payload: &'a [u8]) -> Result<Self, Malformed> {
        let flags = payload.get(FIXED..FIXED + 2).ok_or(Malformed)?;
        let flags = u16::from_be_bytes([flags[0], flags[1]]);
        let mut at = FIXED + 2;
        let mut properties = [const { None }; COUNT];
        for (place, property) in properties.iter_mut().enumerate() {
            if flags & bit(place) == 0 {
                continue;
            }
            let rest = payload.get(at..).ok_or(Malformed)?;
            let length = match KINDS[place] {
                Kind::Octet => 1,
                Kind::Timestamp => 8,
                Kind::Short => 1 + usize::from(*rest.first().ok_or(Malformed)?),
                Kind::Table => {
                    4 + u32::from_be_bytes(*rest.first_chunk().ok_or(Malformed)?) as usize
                }
            };
            *property = Some(at..at + length);
            at += length;
        }
        // The last two bits would say that more flags follow, which no broker knows.
        if at != payload.len() || flags & 3 != 0 {
            return Err(Malformed);
        }
        Ok(Self { payload, flags, properties })
    }

    /// Whether it is to be delayed: it cancels, or what it asks for is neither no delay nor past.
    /// What cannot be read is for the capture to judge.
    pub(super) fn asks_for_delay(
        &self,
        now: impl Fn() -> UnixMs,
        max_ms: u64,
    ) -> Result<bool, Malformed> {
        let table = self.table();
        let mut asks = false;
        for field in table::fields(table) {
            let field = field?;
            let value = || table::value(field.kind, &table[field.value.clone()]);
            let name = &table[field.name.clone()];
            asks |= name == delay::DELAY_CANCEL.as_bytes()
                || name == delay::DELAY.as_bytes() && delays(value(), max_ms)
                || name == delay::DELIVER_AT.as_bytes() && waits(value(), now(), max_ms);
        }
        Ok(asks)
    }

    /// When it may be released, if its delay counts from now.
    pub(super) fn due(&self, now: UnixMs, max_ms: u64) -> Option<UnixMs> {
        let table = self.table();
        let value = |header: &str| {
            let is_it = |field: &table::Field| table[field.name.clone()] == *header.as_bytes();
            // Of several the last one counts, as it does for the capture.
            let last = table::fields(table).flatten().filter(is_it).last()?;
            Some(table::value(last.kind, &table[last.value]))
        };
        let headers = delay::Headers {
            delay: value(delay::DELAY),
            deliver_at: value(delay::DELIVER_AT),
            id: None,
            cancel: value(delay::DELAY_CANCEL),
        };
        match delay::read(&headers, now, max_ms) {
            Ok(Wish::Hold(When::In(ms), _)) => Some(now + ms),
            _ => None,
        }
    }

    /// The payload with `stamp` on it; what a capture queue would act upon has moved into the stamp.
    pub(super) fn stamped(&self, mut stamp: Stamp) -> Vec<u8> {
        let mut flags = self.flags;
        if let Some(property) = &self.properties[PRIORITY] {
            stamp.priority = Some(self.payload[property.start]);
            flags &= !bit(PRIORITY);
        }
        if let Some(property) = &self.properties[EXPIRATION] {
            let text = &self.payload[property.start + 1..property.end];
            if is_expiration(text) {
                stamp.expiration = Some(String::from_utf8_lossy(text).into_owned());
                flags &= !bit(EXPIRATION);
            }
        }
        let mut out = Vec::with_capacity(self.payload.len() + 128);
        out.extend_from_slice(&self.payload[..FIXED]);
        out.extend_from_slice(&flags.to_be_bytes());
        for (place, property) in self.properties.iter().enumerate() {
            match property {
                Some(_) if place == HEADERS => self.push_headers(&mut out, &stamp),
                Some(property) if flags & bit(place) != 0 => {
                    out.extend_from_slice(&self.payload[property.clone()]);
                }
                _ => {}
            }
        }
        out
    }

    fn push_headers(&self, out: &mut Vec<u8>, stamp: &Stamp) {
        let table = self.table();
        let length_at = out.len();
        out.extend_from_slice(&[0; 4]);
        for field in table::fields(table).flatten() {
            match &table[field.name.clone()] {
                name if name == STAMP.as_bytes() => {}
                // Any other kind of value is left for the broker to refuse.
                name if name == BCC.as_bytes() && is_texts(&field, table) => {
                    table::push_name(out, BCC_CARRIED);
                    out.push(field.kind);
                    out.extend_from_slice(&table[field.value]);
                }
                _ => out.extend_from_slice(&table[field.whole()]),
            }
        }
        table::push_text(out, STAMP, stamp.encode().as_bytes());
        let length = (out.len() - length_at - 4) as u32;
        out[length_at..length_at + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// The headers, without their length.
    fn table(&self) -> &'a [u8] {
        self.properties[HEADERS]
            .as_ref()
            .map_or(&[], |table| &self.payload[table.start + 4..table.end])
    }
}

fn bit(place: usize) -> u16 {
    1 << (15 - place)
}

fn is_texts(field: &table::Field, table: &[u8]) -> bool {
    field.kind == b'A' && table::is_texts(&table[field.value.start + 4..field.value.end])
}

/// Anything but a number of zero or less.
fn delays(delay: Value<'_>, max_ms: u64) -> bool {
    let headers = delay::Headers { delay: Some(delay), ..Default::default() };
    !matches!(delay::read(&headers, 0, max_ms), Ok(Wish::Hold(When::AtOnce, _)))
}

/// Anything but an instant that has passed.
fn waits(deliver_at: Value<'_>, now: UnixMs, max_ms: u64) -> bool {
    let headers = delay::Headers { deliver_at: Some(deliver_at), ..Default::default() };
    match delay::read(&headers, now, max_ms) {
        Ok(Wish::Hold(When::At(due), _)) => due > now,
        _ => true,
    }
}

#[cfg(test)]
mod tests;
