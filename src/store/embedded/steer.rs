//! What an operator sees in the file, and how they change it. The same steps as the scripts `list`,
//! `find`, `cancel`, `reschedule`, `revive`, `withdraw` and `restore` in `lua/`.

use bytes::Bytes;

use super::claim::placed;
use super::page::Page;
use super::record::{Record, Room};
use crate::clock::UnixMs;
use crate::delay::When;
use crate::message::Uid;
use crate::store::{
    Found, Handle, Listing, Name, Place, Seen, Start, State, Steered, Step, envelope,
};

type Result<T> = std::result::Result<T, redb::Error>;

pub(super) fn list(
    page: &Page<'_>,
    room: Room,
    state: State,
    start: &Start,
    most: usize,
) -> Result<Listing> {
    let mut listing = Listing::default();
    for (place, uid) in page.places_from(room, state, start, most + 1)? {
        if listing.seen.len() == most {
            listing.more = true;
            break;
        }
        let record = page.record(room, &uid)?.ok_or_else(super::page::damaged)?;
        let (bytes, head) = page.envelope_head(room, &uid, envelope::HEAD_BYTES)?;
        listing.seen.push(seen(uid.into(), record, Place(place.into()), bytes, head));
    }
    Ok(listing)
}

pub(super) fn find(page: &Page<'_>, room: Room, name: &Name) -> Result<Option<Found>> {
    let uid = match name {
        Name::Uid(uid) => Some(uid.as_bytes().to_vec()),
        Name::Id(id) => page.holder_of(room, id.as_str())?,
    };
    let Some(uid) = uid else { return Ok(None) };
    let Some(record) = page.record(room, &uid)? else { return Ok(None) };
    let body = page.envelope(room, &uid)?.unwrap_or_default();
    let place = Place(record.place_in_state().into());
    let seen = seen(uid.into(), record, place, body.len() as u64, body.clone());
    let message = envelope::unpack(seen.uid.clone(), body);
    Ok(Some(Found { seen, message }))
}

fn seen(uid: Bytes, record: Record, place: Place, bytes: u64, head: Bytes) -> Seen {
    Seen {
        uid: Uid::from_bytes(uid),
        state: record.state,
        at: record.at,
        due: record.due,
        attempts: record.attempts,
        reason: Some(record.reason).filter(|_| record.state == State::Dead),
        bytes,
        head: envelope::peek(head),
        place,
        slice: 0,
    }
}

/// Takes one step. `now` is rounded down, so a delay counts from the millisecond after.
pub(super) fn steer(
    page: &mut Page<'_>,
    room: Room,
    step: &Step,
    handle: &Handle,
    now: UnixMs,
) -> Result<Steered> {
    let uid = handle.uid.as_bytes();
    let Some(record) = page.record(room, uid)? else { return Ok(Steered::Unknown) };
    let due = |when: When| match when {
        When::AtOnce => now,
        When::In(ms) => (now + 1).saturating_add(ms),
        When::At(due) => due,
        When::Since { stamp, ms } => stamp.min(now + 1).saturating_add(ms),
    };
    match (step, record.state) {
        (Step::Cancel, state) => {
            page.remove(room, uid, &record)?;
            page.remember_gone(room, uid, now)?;
            if let Some(id) = &handle.id {
                page.forget_name_of(room, id.as_str(), uid)?;
            }
            // What died may have been delivered before, as in Redis.
            let leased = state != State::Parked || record.leased_before;
            Ok(if leased { Steered::CancelledLeased } else { Steered::Cancelled })
        }
        (_, State::Leased) => Ok(Steered::IsLeased),
        (Step::Reschedule(when), State::Parked) => {
            let due = due(*when);
            let rank = u8::MAX - record.priority;
            let again = placed(&record, State::Parked, due, page.order());
            page.put_anew(room, uid, &record, &Record { due, rank, ..again })?;
            Ok(Steered::Rescheduled(due))
        }
        (Step::Bury(reason), State::Parked) => {
            let dead = placed(&record, State::Dead, now, page.order());
            let reason = reason.as_str().to_owned();
            page.put_anew(room, uid, &record, &Record { reason, ..dead })?;
            Ok(Steered::Buried)
        }
        (Step::Revive(when), State::Dead) => {
            if let Some(id) = &handle.id {
                let holder = page.holder_of(room, id.as_str())?.filter(|holder| holder != uid);
                if let Some(holder) = holder
                    && page.record(room, &holder)?.is_some()
                {
                    return Ok(Steered::IdTaken);
                }
                page.name(room, id.as_str(), uid)?;
            }
            let due = when.map_or(record.due, due);
            let again = Record::parked(due, record.priority, page.order());
            // It may have been delivered once: only who buried it unseen could tell.
            page.put_anew(room, uid, &record, &Record { leased_before: true, ..again })?;
            Ok(Steered::Revived)
        }
        (Step::Revive(_), State::Parked) => Ok(Steered::IsParked),
        (_, State::Dead) => Ok(Steered::IsDead),
    }
}

/// Gives a message that is parked or dead at least these attempts.
pub(super) fn restore(
    page: &mut Page<'_>,
    room: Room,
    handle: &Handle,
    attempts: u32,
) -> Result<bool> {
    let uid = handle.uid.as_bytes();
    let Some(record) = page.record(room, uid)?.filter(|it| it.state != State::Leased) else {
        return Ok(false);
    };
    if attempts > record.attempts {
        // What was tried may have been delivered, as in Redis.
        let tried = Record { attempts, leased_before: true, ..record.clone() };
        page.put_anew(room, uid, &record, &tried)?;
    }
    Ok(true)
}
