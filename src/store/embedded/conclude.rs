//! settle: leased -> gone, postpone: leased -> parked, bury: leased -> dead. The same steps as the
//! scripts of these names in `lua/`. A token that is not the last one of its message changes
//! nothing.

use super::claim::placed;
use super::page::Page;
use super::record::{Record, Room};
use crate::clock::UnixMs;
use crate::store::State;

/// What a ticket says, for the thread that writes.
pub(super) struct Stub {
    pub uid: Vec<u8>,
    pub token: u64,
}

impl Stub {
    /// The record, while this is the ticket that holds it.
    fn held(&self, page: &Page<'_>, room: Room) -> Result<Option<Record>, redb::Error> {
        let record = page.record(room, &self.uid)?;
        Ok(record.filter(|it| it.state == State::Leased && it.order == self.token))
    }
}

/// Removes a message whose release was confirmed. True when it was still held.
pub(super) fn settle(
    page: &mut Page<'_>,
    room: Room,
    stub: &Stub,
    id: Option<&str>,
) -> Result<bool, redb::Error> {
    let Some(record) = stub.held(page, room)? else { return Ok(false) };
    page.remove(room, &stub.uid, &record)?;
    if let Some(id) = id {
        page.forget_name_of(room, id, &stub.uid)?;
    }
    Ok(true)
}

/// Gives a message back, to be tried `wait` ms after `now`, or from its due when there is none.
pub(super) fn postpone(
    page: &mut Page<'_>,
    room: Room,
    stub: &Stub,
    (wait, counts): (u64, bool),
    now: UnixMs,
) -> Result<bool, redb::Error> {
    let Some(record) = stub.held(page, room)? else { return Ok(false) };
    let parked = if wait > 0 {
        placed(&record, State::Parked, now.saturating_add(wait), page.order())
    } else {
        // As it was when it was parked first, so that it keeps its turn.
        let at = record.due.min(now);
        let rank = u8::MAX - record.priority;
        Record { rank, ..placed(&record, State::Parked, at, record.arrival) }
    };
    let attempts = record.attempts + u32::from(counts);
    // Its holder lives to tell, so the message is not what ended earlier ones.
    let parked = Record { attempts, expiries: 0, leased_before: true, ..parked };
    page.put_anew(room, &stub.uid, &record, &parked)?;
    Ok(true)
}

/// Keeps a message that cannot be released.
pub(super) fn bury(
    page: &mut Page<'_>,
    room: Room,
    stub: &Stub,
    reason: &str,
    now: UnixMs,
) -> Result<bool, redb::Error> {
    let Some(record) = stub.held(page, room)? else { return Ok(false) };
    let order = page.order();
    let dead = Record {
        reason: reason.to_owned(),
        leased_before: true,
        ..placed(&record, State::Dead, now, order)
    };
    page.put_anew(room, &stub.uid, &record, &dead)?;
    Ok(true)
}
