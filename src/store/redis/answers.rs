//! Reads what the scripts return. An answer of another shape than their headers promise is an
//! error, never a guess.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use redis::Value;

use crate::clock::UnixMs;
use crate::delay::When;
use crate::message::Uid;
use crate::store::{
    Census, Claim, DUE_IN_BOUNDS_MS, Entry, Error, Lease, Mark, Outcome, Parkings, Recovery, Stand,
    Ticket, Unreadable, envelope,
};

/// What `park` answers for one bucket.
pub(super) struct Parked {
    pub sequence: i64,
    pub now: UnixMs,
    earliest_due: Option<UnixMs>,
    outcomes: Vec<Outcome>,
}

/// What `park` answers, unless a mark was elsewhere: then where.
pub(super) fn parked(
    answer: Value,
    entries: &[&Entry],
) -> Result<Result<Parked, Vec<Stand>>, Error> {
    let mut items = array("park", answer)?.into_iter();
    if matches!(items.as_slice().first(), Some(Value::BulkString(_))) {
        return stands(items.skip(1)).map(Err);
    }
    let mut number = || integer("park", items.next());
    let (sequence, now, earliest) = (number()?, number()?, number()?);
    let letters = bytes("park", items.next())?;
    if letters.len() != entries.len() {
        let (found, asked) = (letters.len(), entries.len());
        return Err(Error::Garbled(format!("park answered {found} of {asked} entries")));
    }
    let now = now as UnixMs;
    let outcomes = letters.iter().zip(entries).map(|(letter, entry)| outcome(*letter, entry, now));
    let outcomes = outcomes.collect::<Result<Vec<_>, _>>()?;
    Ok(Ok(Parked { sequence, now, earliest_due: due(earliest), outcomes }))
}

/// Pairs of a log and the text of its mark, empty where it has none.
fn stands(mut items: impl Iterator<Item = Value>) -> Result<Vec<Stand>, Error> {
    let mut stands = Vec::new();
    while let Some(log) = items.next() {
        let log = bytes("park", Some(log))?;
        let log = std::str::from_utf8(&log).ok().and_then(|log| log.parse().ok());
        let log = log.ok_or_else(|| Error::Garbled("park named no log".into()))?;
        stands.push(Stand { log, mark: mark(&bytes("park", items.next())?)? });
    }
    Ok(stands)
}

/// A mark as it is kept; empty for none.
pub(super) fn mark(text: &[u8]) -> Result<Option<Mark>, Error> {
    if text.is_empty() {
        return Ok(None);
    }
    let mark = std::str::from_utf8(text).ok().and_then(Mark::decode);
    mark.map(Some).ok_or_else(|| Error::Garbled("a mark is not what was written".into()))
}

fn outcome(letter: u8, entry: &Entry, now: UnixMs) -> Result<Outcome, Error> {
    let due = match entry {
        Entry::Park { when: When::At(due), .. } => *due,
        Entry::Park { when: When::In(ms), .. } => now.saturating_add(*ms),
        Entry::Park { when: When::Since { stamp, ms }, .. } => {
            (*stamp).min(now).saturating_add(*ms)
        }
        Entry::Park { when: When::AtOnce, .. } => now.saturating_sub(1),
        _ => now,
    };
    Ok(match letter {
        b'p' => Outcome::Parked(due),
        b'r' => Outcome::Replaced(due),
        b'R' => Outcome::ReplacedLeased(due),
        b'k' => Outcome::Known,
        b'b' => Outcome::Buried,
        b'c' => Outcome::Cancelled,
        b'C' => Outcome::CancelledLeased,
        b'u' => Outcome::UnknownId,
        b'n' => Outcome::NotYours,
        other => {
            return Err(Error::Garbled(format!("park answered `{}`", char::from(other))));
        }
    })
}

/// Puts the answers of several buckets back into the order of the batch.
pub(super) struct Merged {
    outcomes: Vec<Option<Outcome>>,
    now: UnixMs,
    earliest_due: Option<UnixMs>,
    rolled_back: bool,
}

impl Merged {
    pub(super) fn new(entries: usize) -> Self {
        Self { outcomes: vec![None; entries], now: 0, earliest_due: None, rolled_back: false }
    }

    /// An entry that lies before its log's mark.
    pub(super) fn add_known(&mut self, place: usize) {
        self.outcomes[place] = Some(Outcome::Known);
    }

    pub(super) fn add(&mut self, places: &[usize], parked: Parked, rolled_back: bool) {
        for (place, outcome) in places.iter().zip(parked.outcomes) {
            self.outcomes[*place] = Some(outcome);
        }
        self.now = self.now.max(parked.now);
        self.earliest_due = self.earliest_due.into_iter().chain(parked.earliest_due).min();
        self.rolled_back |= rolled_back;
    }

    /// Proves it: each entry has an answer from a script that ran, and whose barrier held.
    pub(super) fn finish(self, batch: &[Entry]) -> Result<Parkings, Error> {
        let outcomes = self.outcomes.into_iter().collect::<Option<Vec<_>>>();
        let outcomes = outcomes.ok_or_else(|| Error::Garbled("park left an entry out".into()))?;
        let parkings = Parkings::prove(batch, outcomes, self.now, self.earliest_due);
        Ok(Parkings { rolled_back: self.rolled_back, ..parkings })
    }
}

pub(super) fn claimed(answer: Value, slice: u32) -> Result<Claim, Error> {
    let mut items = array("claim", answer)?.into_iter();
    let mut number = || integer("claim", items.next());
    let now = number()?;
    if items.len() == 0 {
        return Ok(Claim::paused(now as UnixMs));
    }
    let mut number = || integer("claim", items.next());
    let (next, bodiless, alone) = (number()?, number()?, number()?);
    let token = String::from_utf8_lossy(&bytes("claim", items.next())?).as_ref().into();
    let mut claim = Claim {
        leases: Vec::with_capacity(items.len() / 3),
        unreadable: Vec::new(),
        bodiless: bodiless as u64,
        alone: alone == 1,
        paused: false,
        now: now as UnixMs,
        next_due: due(next),
    };
    while let Some(uid) = items.next() {
        let uid = Uid::from_bytes(bytes("claim", Some(uid))?);
        let attempts = integer("claim", items.next())? as u32;
        let mut packed = bytes("claim", items.next())?;
        // Without its due it is no envelope either, which is said below.
        let due = packed.try_get_u64().unwrap_or_default();
        let ticket = |id| Ticket::new(uid.clone(), id, Arc::clone(&token), due, slice);
        match envelope::unpack(uid.clone(), packed) {
            Ok(message) => {
                let ticket = ticket(message.id.clone());
                claim.leases.push(Lease::new(message, attempts, ticket));
            }
            Err(fault) => {
                claim.unreadable.push(Unreadable { ticket: ticket(None), fault });
            }
        }
    }
    Ok(claim)
}

/// Several buckets' claims as one, in order of due. A bucket that fails does not hold up the
/// others: what they handed out is leased already.
pub(super) fn merge_claims(claims: Vec<Result<Claim, Error>>) -> Result<Claim, Error> {
    let several = claims.len() > 1;
    let (mut failure, mut good) = (None, Vec::new());
    for claim in claims {
        match claim {
            Ok(claim) => good.push(claim),
            Err(error) => failure = Some(error),
        }
    }
    let mut claims = good.into_iter();
    let Some(mut merged) = claims.next() else {
        let none = || Error::Garbled("a destination has no bucket".into());
        return Err(failure.unwrap_or_else(none));
    };
    if let Some(error) = failure {
        tracing::warn!(%error, "one bucket of a destination does not answer");
    }
    for claim in claims {
        merged.leases.extend(claim.leases);
        merged.unreadable.extend(claim.unreadable);
        merged.bodiless += claim.bodiless;
        merged.alone |= claim.alone;
        // Some buckets may not know yet: what they handed out goes out.
        merged.paused &= claim.paused;
        merged.now = merged.now.max(claim.now);
        merged.next_due = merged.next_due.into_iter().chain(claim.next_due).min();
    }
    if several {
        merged.leases.sort_by_key(Lease::due);
    }
    Ok(merged)
}

/// How many of a concluding script's tickets still held their message.
pub(super) fn held(answer: Value) -> Result<usize, Error> {
    Ok(integer("conclude", Some(answer))? as usize)
}

pub(super) fn recovered(answer: Value) -> Result<Recovery, Error> {
    let mut items = array("recover", answer)?.into_iter();
    Ok(Recovery {
        recovered: integer("recover", items.next())? as u64,
        buried: integer("recover", items.next())? as u64,
    })
}

pub(super) fn census(answer: Value) -> Result<Census, Error> {
    let mut items = array("census", answer)?.into_iter();
    let mut number = || integer("census", items.next());
    let mut census = Census {
        now: number()? as u64,
        parked: number()? as u64,
        leased: number()? as u64,
        dead: number()? as u64,
        overdue: number()? as u64,
        paused: number()? == 1,
        next: due(number()?),
        due_within: [0; DUE_IN_BOUNDS_MS.len()],
    };
    for within in &mut census.due_within {
        *within = number()? as u64;
    }
    Ok(census)
}

pub(super) fn add_census(sum: &mut Census, more: &Census) {
    sum.now = sum.now.max(more.now);
    sum.parked += more.parked;
    sum.leased += more.leased;
    sum.dead += more.dead;
    sum.overdue += more.overdue;
    sum.paused |= more.paused;
    sum.next = sum.next.into_iter().chain(more.next).min();
    for (sum, more) in sum.due_within.iter_mut().zip(more.due_within) {
        *sum += more;
    }
}

fn due(number: i64) -> Option<UnixMs> {
    u64::try_from(number).ok()
}

pub(super) fn array(script: &str, value: Value) -> Result<Vec<Value>, Error> {
    match value {
        Value::Array(items) => Ok(items),
        other => Err(garbled(script, &other)),
    }
}

pub(super) fn integer(script: &str, value: Option<Value>) -> Result<i64, Error> {
    match value {
        Some(Value::Int(number)) => Ok(number),
        other => Err(garbled(script, &other.unwrap_or(Value::Nil))),
    }
}

pub(super) fn bytes(script: &str, value: Option<Value>) -> Result<Bytes, Error> {
    match value {
        Some(Value::BulkString(bytes)) => Ok(bytes.into()),
        other => Err(garbled(script, &other.unwrap_or(Value::Nil))),
    }
}

/// By its type alone: the value may hold a message's body.
pub(super) fn garbled(script: &str, value: &Value) -> Error {
    let kind = match value {
        Value::Nil => "nothing",
        Value::Int(_) => "an integer",
        Value::BulkString(_) => "a string",
        Value::Array(_) => "an array",
        _ => "something else",
    };
    Error::Garbled(format!("{script} returned {kind} where that was not expected"))
}
