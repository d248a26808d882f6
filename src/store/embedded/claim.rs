//! claim: parked -> leased, and recover: leased -> parked | dead. The same steps as the scripts of
//! these names in `lua/`.

use std::sync::Arc;

use super::page::Page;
use super::record::{Record, Room};
use crate::clock::{UnixMs, millis};
use crate::message::Uid;
use crate::store::{
    Claim, EXPIRIES_BEFORE_ALONE, Lease, Limit, Recovery, State, Ticket, Unreadable, envelope,
};

const BODILESS: &str = "its body is missing in the store";

/// Takes what is due. `now` is rounded down, so that nothing is early.
pub(super) fn claim(
    page: &mut Page<'_>,
    room: Room,
    limit: Limit,
    now: UnixMs,
) -> Result<Claim, redb::Error> {
    if page.is_paused(room)? {
        return Ok(Claim::paused(now));
    }
    let mut claim = Claim {
        leases: Vec::new(),
        unreadable: Vec::new(),
        bodiless: 0,
        alone: false,
        paused: false,
        now,
        next_due: None,
    };
    let (mut taken, mut bytes) = (0, 0);
    for uid in page.until(room, State::Parked, now, limit.messages)? {
        let Some(record) = page.record(room, &uid)? else { return Err(super::page::damaged()) };
        let alone = record.expiries >= EXPIRIES_BEFORE_ALONE;
        let Some(body) = page.envelope(room, &uid)? else {
            let order = page.order();
            let dead =
                Record { reason: BODILESS.into(), ..placed(&record, State::Dead, now, order) };
            page.put_anew(room, &uid, &record, &dead)?;
            claim.bodiless += 1;
            continue;
        };
        if alone && !limit.alone {
            break;
        }
        if taken > 0 && (alone || bytes + body.len() as u64 > limit.bytes) {
            break;
        }
        taken += 1;
        bytes += body.len() as u64;
        let end = now.saturating_add(millis(limit.lease));
        let leased = placed(&record, State::Leased, end, page.order());
        page.put_anew(room, &uid, &record, &leased)?;
        hand_out(&mut claim, Uid::from_bytes(uid.into()), body, &leased);
        if alone {
            claim.alone = true;
            break;
        }
    }
    claim.next_due = page.next_due(room)?;
    Ok(claim)
}

fn hand_out(claim: &mut Claim, uid: Uid, body: bytes::Bytes, leased: &Record) {
    let token: Arc<str> = leased.order.to_string().into();
    let ticket = |id| Ticket::new(uid.clone(), id, Arc::clone(&token), leased.due, 0);
    match envelope::unpack(uid.clone(), body) {
        Ok(message) => {
            let ticket = ticket(message.id.clone());
            claim.leases.push(Lease::new(message, leased.attempts, ticket));
        }
        Err(fault) => claim.unreadable.push(Unreadable { ticket: ticket(None), fault }),
    }
}

/// Gives back leases that ended before `until`.
pub(super) fn recover(
    page: &mut Page<'_>,
    room: Room,
    until: UnixMs,
    now: UnixMs,
    most: usize,
) -> Result<Recovery, redb::Error> {
    let mut recovery = Recovery::default();
    for uid in page.until(room, State::Leased, until, most)? {
        let Some(record) = page.record(room, &uid)? else { return Err(super::page::damaged()) };
        let expiries = record.expiries + 1;
        let order = page.order();
        let next = if expiries > EXPIRIES_BEFORE_ALONE {
            recovery.buried += 1;
            let reason = format!(
                "its holder was lost {expiries} times, the last time with this message alone"
            );
            Record { reason, ..placed(&record, State::Dead, now, order) }
        } else {
            recovery.recovered += 1;
            placed(&record, State::Parked, record.at.min(now), order)
        };
        let next = Record { expiries, leased_before: true, ..next };
        page.put_anew(room, &uid, &record, &next)?;
    }
    Ok(recovery)
}

/// The same message in another place.
pub(super) fn placed(record: &Record, state: State, at: UnixMs, order: u64) -> Record {
    Record { state, at, rank: 0, order, ..record.clone() }
}
