//! Content headers: the properties of a message, found and changed in the bytes they travel in.

use crate::broker::amqp::stamp::{BCC, BCC_CARRIED, STAMP, Stamp, is_expiration};
use crate::clock::UnixMs;
use crate::delay::{self, Value, When, Wish};
use crate::message::amqp::property_list::{CONTENT_FIXED, Property, PropertyList};
use crate::message::amqp::table::{self, Malformed};

/// The payload of a content header frame, its properties found.
#[derive(Debug)]
pub(super) struct Content<'a> {
    payload: &'a [u8],
    properties: PropertyList<'a>,
}

impl<'a> Content<'a> {
    /// The headers of a message without a table of them, which most are, cannot ask for a delay.
    pub(super) fn has_headers(payload: &[u8]) -> bool {
        payload.get(CONTENT_FIXED).is_some_and(|flags| flags & 0x20 != 0)
    }

    /// Finds the properties.
    pub(super) fn read(payload: &'a [u8]) -> Result<Self, Malformed> {
        let properties = PropertyList::read(payload.get(CONTENT_FIXED..).ok_or(Malformed)?)?;
        Ok(Self { payload, properties })
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
        // Of several the last one counts, as it does for the capture.
        let value = |header: &str| {
            table::last_of(table, header).map(|(kind, value)| table::value(kind, value))
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
    pub(super) fn stamped(&self, mut stamp: Stamp) -> Result<Vec<u8>, Malformed> {
        let mut moved = Vec::new();
        if let Some(priority) = self.properties.get(Property::Priority) {
            stamp.priority = Some(priority[0]);
            moved.push((Property::Priority, None));
        }
        if let Some(text) = self.properties.text(Property::Expiration)
            && is_expiration(text)
        {
            stamp.expiration = Some(String::from_utf8_lossy(text).into_owned());
            moved.push((Property::Expiration, None));
        }
        let mut out = Vec::with_capacity(self.payload.len() + 128);
        out.extend_from_slice(&self.payload[..CONTENT_FIXED]);
        self.properties.write(&mut out, &moved, |out| self.push_headers(out, &stamp))?;
        Ok(out)
    }

    fn push_headers(&self, out: &mut Vec<u8>, stamp: &Stamp) -> Result<(), Malformed> {
        let table = self.table();
        for field in table::fields(table) {
            let field = field?;
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
        Ok(())
    }

    /// The headers, without their length.
    fn table(&self) -> &'a [u8] {
        self.properties.headers()
    }
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
