//! The fourteen properties of a message, found and changed in the bytes they travel in.
//!
//! A captured message is published as it came but for a few headers. Decoding it for that would
//! cost more than all else that is done to it, lose what the decoder does not know, and put the
//! headers in another order.

use std::ops::Range;

use super::table::Malformed;

/// Bytes of a content header before its properties: class, weight and size of the body.
pub(crate) const CONTENT_FIXED: usize = 12;

/// Which properties there are: a bit each, from the highest on.
const COUNT: usize = 14;

/// A property that is read or written by itself; its number is its place in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Property {
    /// A table.
    Headers = 2,
    /// One byte.
    Priority = 4,
    /// Text, its length before it in one byte.
    Expiration = 7,
    /// The same.
    UserId = 11,
}

/// How a property is written.
#[derive(Clone, Copy)]
enum Shape {
    Short,
    Table,
    Octet,
    Timestamp,
}

/// content-type, content-encoding, headers, delivery-mode, priority, correlation-id, reply-to,
/// expiration, message-id, timestamp, type, user-id, app-id, cluster-id.
const SHAPES: [Shape; COUNT] = {
    use Shape::{Octet, Short, Table, Timestamp};
    [
        Short, Short, Table, Octet, Octet, Short, Short, Short, Short, Timestamp, Short, Short,
        Short, Short,
    ]
};

/// Property flags and list as a content header frame carries them.
#[derive(Debug)]
pub(crate) struct PropertyList<'a> {
    bytes: &'a [u8],
    flags: u16,
    places: [Option<Range<usize>>; COUNT],
}

impl<'a> PropertyList<'a> {
    /// Finds the properties.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let flags = u16::from_be_bytes(*bytes.first_chunk().ok_or(Malformed)?);
        let mut at = 2;
        let mut places = [const { None }; COUNT];
        for (place, found) in places.iter_mut().enumerate() {
            if flags & bit(place) == 0 {
                continue;
            }
            let rest = bytes.get(at..).ok_or(Malformed)?;
            let length = match SHAPES[place] {
                Shape::Octet => 1,
                Shape::Timestamp => 8,
                Shape::Short => 1 + usize::from(*rest.first().ok_or(Malformed)?),
                Shape::Table => {
                    4 + u32::from_be_bytes(*rest.first_chunk().ok_or(Malformed)?) as usize
                }
            };
            *found = Some(at..at + length);
            at += length;
        }
        // The last two bits would say that more flags follow, which no broker knows.
        if at != bytes.len() || flags & 3 != 0 {
            return Err(Malformed);
        }
        Ok(Self { bytes, flags, places })
    }

    /// A property with its length, where it has one.
    pub(crate) fn get(&self, property: Property) -> Option<&'a [u8]> {
        self.places[property as usize].as_ref().map(|place| &self.bytes[place.clone()])
    }

    /// The text of a property that is one.
    pub(crate) fn text(&self, property: Property) -> Option<&'a [u8]> {
        self.get(property)?.get(1..)
    }

    /// The fields of the headers, without the length of the table.
    pub(crate) fn headers(&self) -> &'a [u8] {
        self.get(Property::Headers).map_or(&[], |table| &table[4..])
    }

    /// Appends the list without the properties in `without`, and with `headers` as its table:
    /// what that appends are fields. Its error is passed on.
    pub(crate) fn write(
        &self,
        out: &mut Vec<u8>,
        without: &[Property],
        headers: impl FnOnce(&mut Vec<u8>) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        let gone = without.iter().fold(0, |gone, property| gone | bit(*property as usize));
        let flags = (self.flags | bit(Property::Headers as usize)) & !gone;
        out.extend_from_slice(&flags.to_be_bytes());
        let copy = |out: &mut Vec<u8>, places: Range<usize>| {
            for place in places.filter(|place| flags & bit(*place) != 0) {
                let found = self.places[place].clone();
                out.extend_from_slice(found.map_or(&[], |found| &self.bytes[found]));
            }
        };
        let table = Property::Headers as usize;
        copy(out, 0..table);
        let length_at = out.len();
        out.extend_from_slice(&[0; 4]);
        headers(out)?;
        let length = (out.len() - length_at - 4) as u32;
        out[length_at..length_at + 4].copy_from_slice(&length.to_be_bytes());
        copy(out, table + 1..COUNT);
        Ok(())
    }
}

fn bit(place: usize) -> u16 {
    1 << (15 - place)
}
