//! park: new -> parked | dead, parked -> gone. The same steps as `lua/park.lua`.

use super::page::Page;
use super::record::{Record, Room};
use crate::clock::UnixMs;
use crate::delay::When;
use crate::store::mark::Move;
use crate::store::{Entry, Outcome, Stand, State, envelope};

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

/// Applies a batch in order, but for what `is_known` to lie before its mark. `now` is rounded down, so a delay counts from the millisecond after.
pub(super) fn park(
    page: &mut Page<'_>,
    room: Room,
    batch: &[Entry],
    is_known: impl Fn(usize) -> bool,
    now: UnixMs,
) -> Result<Applied, redb::Error> {
    let mut applied = Applied { outcomes: Vec::with_capacity(batch.len()), earliest_due: None };
    for (index, entry) in batch.iter().enumerate() {
        if is_known(index) {
            applied.outcomes.push(Outcome::Known);
            continue;
        }
        let outcome = match entry {
            Entry::Park { message, when, priority } => {
                let uid = message.uid.as_bytes();
                if page.record(room, uid)?.is_some() {
                    applied.outcomes.push(Outcome::Known);
                    continue;
                }
                let due = match when {
                    When::AtOnce => now,
                    When::In(ms) => (now + 1).saturating_add(*ms),
                    When::At(due) => *due,
                    When::Since { stamp, ms } => (*stamp).min(now + 1).saturating_add(*ms),
                };
                let mut ended = None;
                if let Some(id) = &message.id {
                    ended = end_holder_of(page, room, id.as_str(), false)?;
                    page.name(room, id.as_str(), uid)?;
                }
                let record = Record::parked(due, *priority, page.order());
                page.add(room, uid, &record, &envelope::pack(message))?;
                applied.earliest_due = applied.earliest_due.into_iter().chain([due]).min();
                match ended {
                    Some(Ended::Parked) => Outcome::Replaced(due),
                    Some(Ended::Leased) => Outcome::ReplacedLeased(due),
                    None => Outcome::Parked(due),
                }
            }
            Entry::Bury { message, reason } => {
                let uid = message.uid.as_bytes();
                if page.record(room, uid)?.is_some() {
                    applied.outcomes.push(Outcome::Known);
                    continue;
                }
                let order = page.order();
                let record = Record {
                    state: State::Dead,
                    reason: reason.as_str().to_owned(),
                    ..Record::parked(now, 0, order)
                };
                page.add(room, uid, &record, &envelope::pack(message))?;
                Outcome::Buried
            }
            Entry::Cancel { id, .. } => match end_holder_of(page, room, id.as_str(), true)? {
                Some(Ended::Parked) => Outcome::Cancelled,
                Some(Ended::Leased) => Outcome::CancelledLeased,
                None => Outcome::UnknownId,
            },
        };
        applied.outcomes.push(outcome);
    }
    Ok(applied)
}

/// What a message was when it was ended.
enum Ended {
    Parked,
    /// Leased now or before: a holder may have published it.
    Leased,
}

fn end_holder_of(
    page: &mut Page<'_>,
    room: Room,
    id: &str,
    dead_too: bool,
) -> Result<Option<Ended>, redb::Error> {
    let Some(uid) = page.holder_of(room, id)? else { return Ok(None) };
    let Some(record) = page.record(room, &uid)? else { return Ok(None) };
    if record.state == State::Dead && !dead_too {
        return Ok(None);
    }
    page.remove(room, &uid, &record)?;
    page.forget_name(room, id)?;
    // What died may have been delivered before, as in Redis.
    let leased = record.state != State::Parked || record.leased_before;
    Ok(Some(if leased { Ended::Leased } else { Ended::Parked }))
}
