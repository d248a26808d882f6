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
/// Which of them the headers are.
const TABLE: usize = Property::Headers as usize;

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

/// A property, and what becomes of it: other bytes, its length included, or nothing.
pub(crate) type Change<'a> = (Property, Option<&'a [u8]>);

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
        Ok(Self { bytes, places })
    }

    /// Bytes of the whole list.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
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

    /// Appends the list with some properties [changed](Change), and with `headers` as its table:
    /// what that appends are fields, and where it appends none there is no table. Its error is
    /// passed on.
    pub(crate) fn write(
        &self,
        out: &mut Vec<u8>,
        changes: &[Change<'_>],
        headers: impl FnOnce(&mut Vec<u8>) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        let flags_at = out.len();
        out.extend_from_slice(&[0; 2]);
        let mut flags = self.copy(out, 0..TABLE, changes);
        let table_at = out.len();
        out.extend_from_slice(&[0; 4]);
        headers(out)?;
        match (out.len() - table_at - 4) as u32 {
            0 => out.truncate(table_at),
            length => {
                out[table_at..table_at + 4].copy_from_slice(&length.to_be_bytes());
                flags |= bit(TABLE);
            }
        }
        flags |= self.copy(out, TABLE + 1..COUNT, changes);
        out[flags_at..flags_at + 2].copy_from_slice(&flags.to_be_bytes());
        Ok(())
    }

    /// Appends the properties at these places; answers the flags of those there are.
    fn copy(&self, out: &mut Vec<u8>, places: Range<usize>, changes: &[Change<'_>]) -> u16 {
        let mut flags = 0;
        for place in places {
            let change = changes.iter().find(|(property, _)| *property as usize == place);
            let bytes = match change {
                Some((_, bytes)) => *bytes,
                None => self.places[place].as_ref().map(|found| &self.bytes[found.clone()]),
            };
            if let Some(bytes) = bytes {
                out.extend_from_slice(bytes);
                flags |= bit(place);
            }
        }
        flags
    }
}

fn bit(place: usize) -> u16 {
    1 << (15 - place)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// content-type, headers of one field, priority, expiration and a user-id.
    const LIST: &[u8] = b"\xa9\x10\x01t\0\0\0\x03\x01aV\x05\x011\x02me";

    fn written(changes: &[Change<'_>], headers: &[u8]) -> Vec<u8> {
        let list = PropertyList::read(LIST).expect("a list");
        let mut out = b"before".to_vec();
        list.write(&mut out, changes, |out| {
            out.extend_from_slice(headers);
            Ok(())
        })
        .expect("written");
        out.split_off(6)
    }

    #[test]
    fn what_is_not_changed_stays_the_bytes_it_is() {
        assert_eq!(written(&[], b"\x01aV"), LIST);
    }

    #[test]
    fn properties_are_changed_added_and_taken_away_in_place() {
        let changes = [
            (Property::Priority, Some(&b"\x09"[..])),
            (Property::Expiration, None),
            (Property::UserId, None),
        ];
        assert_eq!(written(&changes, b"\x01bV"), b"\xa8\0\x01t\0\0\0\x03\x01bV\x09");
        assert_eq!(written(&changes, b""), b"\x88\0\x01t\x09", "no headers, no table");
        let bare = PropertyList::read(&[0, 0]).expect("a list");
        let mut out = Vec::new();
        let added = [(Property::Expiration, Some(&b"\x0260"[..]))];
        bare.write(&mut out, &added, |_| Ok(())).expect("written");
        assert_eq!(out, b"\x01\0\x0260");
    }
}
