//! How a message's place is written down: keys that sort in the order they are read, and the
//! record that leads from a uid to its place.
//!
//! ```text
//! place key    destination 4 | state 1 | at 8 | rank 1 | order 8
//! message key  destination 4 | uid
//! record       state 1 | at 8 | rank 1 | order 8 | due 8 | arrival 8 | priority 1
//!              attempts 4 | expiries 4 | leased before 1 | reason
//! ```
//!
//! Numbers are big-endian, so that bytes sort as numbers do. `at` is when a parked message may be
//! tried, when a lease ends, or when a dead one was buried.

use bytes::{Buf, BufMut};

use crate::clock::UnixMs;
use crate::store::State;

/// A destination's number in this file.
pub(super) type Room = u32;

fn from_byte(byte: u8) -> Option<State> {
    State::ALL.into_iter().find(|state| *state as u8 == byte)
}

/// All that is known of a message besides its envelope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub state: State,
    pub at: UnixMs,
    /// Lower comes first at the same instant: 255 less the priority.
    pub rank: u8,
    /// Unique among all places; of a lease it is the token.
    pub order: u64,
    pub due: UnixMs,
    /// The order it was parked with.
    pub arrival: u64,
    pub priority: u8,
    pub attempts: u32,
    pub expiries: u32,
    /// A holder may have published it and been lost.
    pub leased_before: bool,
    /// Why it is dead.
    pub reason: String,
}

const RECORD_BYTES_MIN: usize = 44;
const PLACE_BYTES: usize = 22;

impl Record {
    /// A message that was just parked.
    pub(super) fn parked(due: UnixMs, priority: u8, arrival: u64) -> Self {
        Self {
            state: State::Parked,
            at: due,
            rank: u8::MAX - priority,
            order: arrival,
            due,
            arrival,
            priority,
            attempts: 0,
            expiries: 0,
            leased_before: false,
            reason: String::new(),
        }
    }

    pub(super) fn place(&self, room: Room) -> [u8; PLACE_BYTES] {
        place(room, self.state, self.at, self.rank, self.order)
    }

    /// What tells its place from others of its state.
    pub(super) fn place_in_state(&self) -> Vec<u8> {
        in_state(&self.place(0)).to_vec()
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(RECORD_BYTES_MIN + self.reason.len());
        out.put_u8(self.state as u8);
        out.put_u64(self.at);
        out.put_u8(self.rank);
        out.put_u64(self.order);
        out.put_u64(self.due);
        out.put_u64(self.arrival);
        out.put_u8(self.priority);
        out.put_u32(self.attempts);
        out.put_u32(self.expiries);
        out.put_u8(u8::from(self.leased_before));
        out.put_slice(self.reason.as_bytes());
        out
    }

    /// `None` for what [`encode`](Self::encode) never wrote.
    pub(super) fn decode(mut bytes: &[u8]) -> Option<Self> {
        if bytes.len() < RECORD_BYTES_MIN {
            return None;
        }
        Some(Self {
            state: from_byte(bytes.get_u8())?,
            at: bytes.get_u64(),
            rank: bytes.get_u8(),
            order: bytes.get_u64(),
            due: bytes.get_u64(),
            arrival: bytes.get_u64(),
            priority: bytes.get_u8(),
            attempts: bytes.get_u32(),
            expiries: bytes.get_u32(),
            leased_before: bytes.get_u8() != 0,
            reason: String::from_utf8_lossy(bytes).into_owned(),
        })
    }
}

fn place(room: Room, state: State, at: UnixMs, rank: u8, order: u64) -> [u8; PLACE_BYTES] {
    let mut key = [0; PLACE_BYTES];
    let mut out = &mut key[..];
    out.put_u32(room);
    out.put_u8(state as u8);
    out.put_u64(at);
    out.put_u8(rank);
    out.put_u64(order);
    key
}

/// Before every place of this state from `at` on.
pub(super) fn first_place(room: Room, state: State, at: UnixMs) -> [u8; PLACE_BYTES] {
    place(room, state, at, 0, 0)
}

/// Behind every place of this state.
pub(super) fn end_of(room: Room, state: State) -> [u8; PLACE_BYTES] {
    let mut end = first_place(room, state, 0);
    end[4] += 1;
    end
}

/// The place within a state that [`in_state`] took apart.
pub(super) fn place_of(room: Room, state: State, in_state: &[u8]) -> Vec<u8> {
    [&room.to_be_bytes()[..], &[state as u8], in_state].concat()
}

/// A place without its destination and state.
pub(super) fn in_state(place: &[u8]) -> &[u8] {
    place.get(5..).unwrap_or_default()
}

/// `at` of a place.
pub(super) fn at_of(place: &[u8]) -> UnixMs {
    place.get(5..13).map_or(0, |mut at| at.get_u64())
}

/// What a message, or a producer's id, is found by.
pub(super) fn key(room: Room, name: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(4 + name.len());
    key.put_u32(room);
    key.put_slice(name);
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_as_it_was_written() {
        let record = Record {
            state: State::Dead,
            attempts: 3,
            expiries: 2,
            leased_before: true,
            reason: "nöt wanted".into(),
            ..Record::parked(1_795_242_678_866, 9, 7)
        };
        assert_eq!(Record::decode(&record.encode()), Some(record.clone()));
        let mut odd = record.encode();
        odd[0] = 9;
        assert_eq!(Record::decode(&odd), None);
        assert_eq!(Record::decode(&odd[..RECORD_BYTES_MIN - 1]), None);
    }

    #[test]
    fn places_sort_by_time_then_priority_then_arrival() {
        let place = |at, priority, order| Record::parked(at, priority, order).place(1);
        let sorted =
            [place(1, 0, 9), place(2, 9, 3), place(2, 0, 1), place(2, 0, 2), place(300, 0, 0)];
        assert!(sorted.is_sorted());
        assert!(first_place(1, State::Parked, 2) < sorted[1]);
        assert!(first_place(1, State::Leased, 0) > sorted[4]);
        assert_eq!(at_of(&sorted[4]), 300);
    }
}
