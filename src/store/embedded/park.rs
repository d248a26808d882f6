//! park: new -> parked | dead, parked -> gone. The same steps as `lua/park.lua`.

use bytes::Bytes;

use super::page::Page;
use super::record::{Record, Room};
use crate::clock::UnixMs;
use crate::delay::When;
use crate::message::{Message, Uid};
use crate::store::mark::Move;
use crate::store::{Author, Entry, NOT_YOURS, Outcome, Stand, State, envelope};

/// What came of a batch.
pub(super) struct Applied {
    pub outcomes: Vec<Outcome>,
    pub earliest_due: Option<UnixMs>,
}

/// Moves the marks of a batch's logs, unless one is elsewhere: then says where those are, and
/// changes nothing.
pub(super) fn move_marks<'m>(
    page: &mut Page<'_>,
    room: Room,
    moves: impl Iterator<Item = &'m Move> + Clone,
) -> Result<Result<(), Vec<Stand>>, redb::Error> {
    let mut elsewhere = Vec::new();
    for step in moves.clone() {
        let mark = page.mark(room, step.log)?;
        if mark.is_none_or(|mark| (mark.life, mark.next) != (step.to.life, step.from)) {
            elsewhere.push(Stand { log: step.log, mark });
        }
    }
    if !elsewhere.is_empty() {
        return Ok(Err(elsewhere));
    }
    for step in moves {
        page.set_mark(room, step.log, &step.to)?;
    }
    Ok(Ok(()))
}

/// Applies a batch in order, but for what `is_known` to lie before its mark. `now` is rounded down,
/// so a delay counts from the millisecond after.
pub(super) fn park(
    page: &mut Page<'_>,
    room: Room,
    batch: &[Entry],
    is_known: impl Fn(usize) -> bool,
    now: UnixMs,
) -> Result<Applied, redb::Error> {
    let mut applied = Applied { outcomes: Vec::with_capacity(batch.len()), earliest_due: None };
    for (index, entry) in batch.iter().enumerate() {
        let outcome = if is_known(index) {
            Outcome::Known
        } else {
            apply(page, room, (&batch[..index], entry), now, &mut applied.earliest_due)?
        };
        applied.outcomes.push(outcome);
    }
    Ok(applied)
}

fn apply(
    page: &mut Page<'_>,
    room: Room,
    (earlier, entry): (&[Entry], &Entry),
    now: UnixMs,
    earliest_due: &mut Option<UnixMs>,
) -> Result<Outcome, redb::Error> {
    let uid = entry.uid().as_bytes();
    match entry {
        Entry::Park { .. } | Entry::Bury { .. } if page.record(room, uid)?.is_some() => {
            Ok(Outcome::Known)
        }
        Entry::Park { by: Author::Producer, message, .. } if page.is_gone(room, uid, now)? => {
            // What it had replaced comes again with it, just before.
            if let Some(id) = &message.id {
                let holder = page.holder_of(room, id.as_str())?;
                let is_it = |entry: &Entry| Some(entry.uid().as_bytes()) == holder.as_deref();
                if earlier.iter().any(is_it) {
                    let user = message.content.user_id();
                    let asks = Some(user.as_deref().unwrap_or_default());
                    end_holder_of(page, room, id.as_str(), false, asks, now)?;
                }
            }
            Ok(Outcome::Known)
        }
        Entry::Park { message, when, priority, by } => {
            let due = match when {
                When::AtOnce => now,
                When::In(ms) => (now + 1).saturating_add(*ms),
                When::At(due) => *due,
                When::Since { stamp, ms } => (*stamp).min(now + 1).saturating_add(*ms),
            };
            let mut ended = None;
            if let Some(id) = &message.id {
                let user = message.content.user_id();
                let asks = (*by == Author::Producer).then_some(user.as_deref().unwrap_or_default());
                ended = end_holder_of(page, room, id.as_str(), false, asks, now)?;
                if ended == Some(Ended::NotYours) {
                    let dead = Record::parked(due, *priority, page.order());
                    return bury(page, room, message, dead, NOT_YOURS, now)
                        .map(|()| Outcome::NotYours);
                }
                page.name(room, id.as_str(), uid)?;
            }
            let record = Record::parked(due, *priority, page.order());
            page.add(room, uid, &record, &envelope::pack(message))?;
            *earliest_due = Some(earliest_due.map_or(due, |earliest| earliest.min(due)));
            Ok(match ended {
                Some(Ended::Parked) => Outcome::Replaced(due),
                Some(Ended::Leased) => Outcome::ReplacedLeased(due),
                Some(Ended::NotYours) | None => Outcome::Parked(due),
            })
        }
        Entry::Bury { message, reason } => {
            let dead = Record::parked(now, 0, page.order());
            bury(page, room, message, dead, reason.as_str(), now).map(|()| Outcome::Buried)
        }
        Entry::Cancel { id, user, .. } => {
            let asks = Some(user.as_deref().unwrap_or_default());
            Ok(match end_holder_of(page, room, id.as_str(), true, asks, now)? {
                Some(Ended::Parked) => Outcome::Cancelled,
                Some(Ended::Leased) => Outcome::CancelledLeased,
                Some(Ended::NotYours) => Outcome::NotYours,
                None => Outcome::UnknownId,
            })
        }
    }
}

/// Keeps a message as dead that was never parked.
fn bury(
    page: &mut Page<'_>,
    room: Room,
    message: &Message,
    record: Record,
    reason: &str,
    now: UnixMs,
) -> Result<(), redb::Error> {
    let reason = reason.to_owned();
    let dead = Record { state: State::Dead, at: now, reason, ..record };
    page.add(room, message.uid.as_bytes(), &dead, &envelope::pack(message))
}

/// What a message was when it was ended.
#[derive(PartialEq)]
enum Ended {
    Parked,
    /// Leased now or before: a holder may have published it.
    Leased,
    /// It is not: it carries another `user-id`.
    NotYours,
}

/// Ends the message that has this id. `asks` is the `user-id` that wants it, empty for none;
/// nothing for an operator, who may end any.
fn end_holder_of(
    page: &mut Page<'_>,
    room: Room,
    id: &str,
    dead_too: bool,
    asks: Option<&[u8]>,
    now: UnixMs,
) -> Result<Option<Ended>, redb::Error> {
    let Some(uid) = page.holder_of(room, id)? else { return Ok(None) };
    let Some(record) = page.record(room, &uid)? else { return Ok(None) };
    if record.state == State::Dead && !dead_too {
        return Ok(None);
    }
    if let Some(asks) = asks
        && owner(page, room, &uid)?.is_some_and(|owner| owner != asks)
    {
        return Ok(Some(Ended::NotYours));
    }
    if asks.is_none() {
        page.remember_gone(room, &uid, now)?;
    }
    page.remove(room, &uid, &record)?;
    page.forget_name(room, id)?;
    // What died may have been delivered before, as in Redis.
    let leased = record.state != State::Parked || record.leased_before;
    Ok(Some(if leased { Ended::Leased } else { Ended::Parked }))
}

/// The `user-id` that a message carries, as far as it can be read.
fn owner(page: &Page<'_>, room: Room, uid: &[u8]) -> Result<Option<Bytes>, redb::Error> {
    let Some(body) = page.envelope(room, uid)? else { return Ok(None) };
    let message = envelope::unpack(Uid::from_bytes(Bytes::copy_from_slice(uid)), body);
    Ok(message.ok().and_then(|message| message.content.user_id()))
}
