//! How many messages are parked until when, at a cost that does not grow with their number.
//!
//! Every parked message is counted in its second, its minute and its hour. To count those up to an
//! instant takes the hours before it, the minutes of its hour, the seconds of its minute, and the
//! messages of its own second.

use std::collections::BTreeMap;

use redb::{ReadableTable, Table};

use super::record::Room;
use crate::clock::UnixMs;

/// Counts by room, length of a slot in ms, and number of the slot.
pub(super) type Slots = (u32, u32, u64);

/// Lengths of slots in ms, the longest first.
const LENGTHS_MS: [u32; 3] = [3_600_000, 60_000, 1_000];

/// Counts that are not yet written: messages of one transaction mostly share their slots.
#[derive(Default)]
pub(super) struct Changes(BTreeMap<Slots, i64>);

impl Changes {
    /// Counts so many messages more, or less.
    pub(super) fn count(&mut self, room: Room, at: UnixMs, more: i64) {
        for length in LENGTHS_MS {
            *self.0.entry((room, length, at / u64::from(length))).or_default() += more;
        }
    }

    /// Writes them, and has none any more.
    pub(super) fn write(
        &mut self,
        slots: &mut Table<'_, Slots, u64>,
    ) -> Result<(), redb::StorageError> {
        for (slot, change) in std::mem::take(&mut self.0) {
            let now = slots.get(slot)?.map_or(0, |count| count.value());
            match now.saturating_add_signed(change) {
                0 => drop(slots.remove(slot)?),
                count => drop(slots.insert(slot, count)?),
            }
        }
        Ok(())
    }
}

/// How many are parked from one instant to before another, both at the beginning of a second: the
/// seconds to the next minute, the minutes to the next hour, the hours, and down again.
pub(super) fn between(
    slots: &impl ReadableTable<Slots, u64>,
    room: Room,
    mut from: UnixMs,
    until: UnixMs,
) -> Result<u64, redb::StorageError> {
    let mut sum = 0;
    let mut take = |length: u64, end: UnixMs, from: &mut UnixMs| {
        if end > *from {
            for slot in slots
                .range((room, length as u32, *from / length)..(room, length as u32, end / length))?
            {
                sum += slot?.1.value();
            }
            *from = end;
        }
        Ok::<_, redb::StorageError>(())
    };
    let [hour, minute, second] = LENGTHS_MS.map(u64::from);
    let floor = |length: u64| until / length * length;
    let up = |from: u64, length: u64, next: u64| (from.div_ceil(next) * next).min(floor(length));
    take(second, up(from, second, minute), &mut from)?;
    take(minute, up(from, minute, hour), &mut from)?;
    for length in [hour, minute, second] {
        take(length, floor(length), &mut from)?;
    }
    Ok(sum)
}

/// How many are parked before the second that `until` lies in, and when that second begins.
pub(super) fn before(
    slots: &impl ReadableTable<Slots, u64>,
    room: Room,
    until: UnixMs,
) -> Result<(u64, UnixMs), redb::StorageError> {
    let (mut sum, mut from) = (0, 0);
    for length in LENGTHS_MS {
        let wide = u64::from(length);
        let slots = slots.range((room, length, from / wide)..(room, length, until / wide))?;
        for slot in slots {
            sum += slot?.1.value();
        }
        from = until / wide * wide;
    }
    Ok((sum, from))
}
