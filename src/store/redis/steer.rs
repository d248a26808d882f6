//! What an operator sees in Redis, and how they change it.

use async_trait::async_trait;
use bytes::{Buf, Bytes};
use redis::Value;

use super::answers::{array, bytes, garbled, integer};
use super::keys::Bucket;
use super::scripts::Call;
use super::{CALL_MAX, RedisStore};
use crate::clock::UnixMs;
use crate::delay::When;
use crate::message::{Destination, ProducerId, Uid};
use crate::store::{
    Error, Found, Handle, Listing, Name, Place, Seen, Start, State, Steer, Steered, Step, envelope,
};

/// Most bytes of bodies that one listing reads inside Redis.
const LIST_BYTES: u64 = 8 << 20;
/// Most bytes of bodies that one step rewrites inside Redis.
const CALL_BYTES_MAX: u64 = 8 << 20;
/// Tokens for each millisecond, as in `lua/guard.lua`.
const TOKENS_PER_MS: f64 = 1_024.0;
/// Bytes of due before each envelope.
const DUE_BYTES: usize = 8;

impl RedisStore {
    async fn list_slice(
        &self,
        slice: u32,
        bucket: &Bucket,
        state: State,
        start: &Start,
        most: usize,
    ) -> Result<Listing, Error> {
        let key = match state {
            State::Parked => &bucket.due,
            State::Leased => &bucket.lease,
            State::Dead => &bucket.dead,
        };
        let mut call = self.scripts.list.call(&[key, &bucket.msg, &bucket.meta]);
        call.arg(most).arg(LIST_BYTES).arg(DUE_BYTES + envelope::HEAD_BYTES);
        match start {
            Start::At(at) => call.arg(first_score(state, *at)).arg(""),
            Start::After(place) => {
                let (score, uid) = score_and_uid(place)?;
                call.arg(score.to_string()).arg(uid)
            }
        };
        let mut items = array("list", self.scripts.list.run(&self.rest, call).await?)?.into_iter();
        let mut listing = Listing { more: integer("list", items.next())? == 1, seen: Vec::new() };
        while let Some(uid) = items.next() {
            let uid = bytes("list", Some(uid))?;
            let score = score(items.next())?;
            let meta = bytes("list", items.next())?;
            let length = integer("list", items.next())? as u64;
            let value = bytes("list", items.next())?;
            listing.seen.push(seen(state, slice, uid, score, &meta, length, value));
        }
        Ok(listing)
    }

    async fn find_in(
        &self,
        slice: u32,
        bucket: &Bucket,
        name: &Name,
    ) -> Result<Option<Found>, Error> {
        let mut call = self.scripts.find.call(&[
            &bucket.due,
            &bucket.lease,
            &bucket.dead,
            &bucket.msg,
            &bucket.meta,
            &bucket.ids,
        ]);
        match name {
            Name::Uid(uid) => call.arg(uid.as_bytes()).arg(""),
            Name::Id(id) => call.arg("").arg(id.as_str()),
        };
        let mut items = array("find", self.scripts.find.run(&self.rest, call).await?)?.into_iter();
        let Some(state) = items.next() else { return Ok(None) };
        let state = match &*bytes("find", Some(state))? {
            b"p" => State::Parked,
            b"l" => State::Leased,
            b"d" => State::Dead,
            _ => return Err(garbled("find", &Value::Nil)),
        };
        let uid = bytes("find", items.next())?;
        let score = score(items.next())?;
        let meta = bytes("find", items.next())?;
        let value = bytes("find", items.next())?;
        let envelope = value.slice(DUE_BYTES.min(value.len())..);
        let length = value.len() as u64;
        let seen = seen(state, slice, uid, score, &meta, length, value);
        let message = envelope::unpack(seen.uid.clone(), envelope);
        Ok(Some(Found { seen, message }))
    }

    /// One script call with some of a bucket's messages.
    async fn steer_some(
        &self,
        bucket: &Bucket,
        step: &Step,
        whom: &[&Handle],
    ) -> Result<Vec<Steered>, Error> {
        let Bucket { due, lease, dead, msg, meta, ids, gone, .. } = bucket;
        let scripts = &self.scripts;
        let (script, mut call, with_ids) = match step {
            Step::Cancel => {
                let call = scripts.cancel.call(&[due, lease, dead, msg, meta, ids, gone]);
                (&scripts.cancel, call, true)
            }
            Step::Reschedule(when) => {
                let mut call = scripts.reschedule.call(&[due, lease, dead, msg]);
                push_time(&mut call, *when);
                (&scripts.reschedule, call, false)
            }
            Step::Revive(when) => {
                let mut call = scripts.revive.call(&[due, lease, dead, msg, meta, ids]);
                match when {
                    Some(when) => push_time(&mut call, *when),
                    None => drop(call.arg("own").arg(0)),
                }
                (&scripts.revive, call, true)
            }
            Step::Bury(reason) => {
                let mut call = scripts.withdraw.call(&[due, lease, dead, meta]);
                call.arg(reason.as_str());
                (&scripts.withdraw, call, false)
            }
        };
        for handle in whom {
            call.arg(handle.uid.as_bytes());
            if with_ids {
                call.arg(handle.id.as_ref().map_or("", ProducerId::as_str));
            }
        }
        let super::Settings { durability, min_replicas, .. } = self.settings;
        let answer = script.run_durably(&self.parks, call, durability, min_replicas).await?;
        let (new_due, letters) = match answer {
            Value::Array(items) => {
                let mut items = items.into_iter();
                (integer("reschedule", items.next())? as UnixMs, bytes("reschedule", items.next())?)
            }
            letters => (0, bytes("steer", Some(letters))?),
        };
        if letters.len() != whom.len() {
            return Err(Error::Garbled(format!("{} of {} steps", letters.len(), whom.len())));
        }
        letters.iter().map(|letter| steered(step, *letter, new_due)).collect()
    }
}

#[async_trait]
impl Steer for RedisStore {
    async fn list(
        &self,
        destination: &Destination,
        state: State,
        start: Start,
        most: usize,
    ) -> Result<Listing, Error> {
        // Redis numbers ranks from zero, and none would mean all.
        let most = most.clamp(1, CALL_MAX);
        let mut parts = Vec::new();
        for (slice, bucket) in self.buckets(destination) {
            parts.push(self.list_slice(slice, &bucket, state, &start, most).await?);
        }
        Ok(Listing::merge(parts, most))
    }

    async fn find(&self, destination: &Destination, name: &Name) -> Result<Option<Found>, Error> {
        for (slice, bucket) in self.buckets(destination) {
            if let Some(found) = self.find_in(slice, &bucket, name).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    async fn steer(
        &self,
        destination: &Destination,
        step: &Step,
        whom: &[Handle],
    ) -> Result<Vec<Steered>, Error> {
        let mut steered = vec![Steered::Unknown; whom.len()];
        for (slice, bucket) in self.buckets(destination) {
            let of_slice = whom.iter().enumerate().filter(|(_, handle)| handle.slice == slice);
            let of_slice: Vec<_> = of_slice.collect();
            for some in portions(&of_slice) {
                let handles: Vec<&Handle> = some.iter().map(|(_, handle)| *handle).collect();
                let answers = self.steer_some(&bucket, step, &handles).await?;
                for ((place, _), answer) in some.iter().zip(answers) {
                    steered[*place] = answer;
                }
            }
        }
        Ok(steered)
    }

    async fn restore(
        &self,
        destination: &Destination,
        whom: &Handle,
        attempts: u32,
    ) -> Result<bool, Error> {
        let super::Settings { durability, min_replicas, .. } = self.settings;
        let mut buckets = self.buckets(destination).into_iter();
        let Some((_, bucket)) = buckets.find(|(slice, _)| *slice == whom.slice) else {
            return Ok(false);
        };
        let restore = &self.scripts.restore;
        let mut call = restore.call(&[&bucket.due, &bucket.dead, &bucket.meta]);
        call.arg(whom.uid.as_bytes()).arg(attempts);
        let answer = restore.run_durably(&self.parks, call, durability, min_replicas).await?;
        Ok(*bytes("restore", Some(answer))? == *b"a")
    }

    async fn backlog(
        &self,
        destination: &Destination,
        until: &[UnixMs],
    ) -> Result<Vec<u64>, Error> {
        let mut sums = vec![0; until.len()];
        for (_, bucket) in self.buckets(destination) {
            let mut call = self.scripts.backlog.call(&[&bucket.due]);
            call.arg(until);
            let counts = array("backlog", self.scripts.backlog.run(&self.rest, call).await?)?;
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum += integer("backlog", Some(count))? as u64;
            }
        }
        Ok(sums)
    }

    async fn pause(&self, destination: &Destination, paused: bool) -> Result<(), Error> {
        let super::Settings { durability, min_replicas, .. } = self.settings;
        for (_, bucket) in self.buckets(destination) {
            let mut call = self.scripts.pause.call(&[&bucket.paused]);
            call.arg(u8::from(paused));
            self.scripts.pause.run_durably(&self.parks, call, durability, min_replicas).await?;
        }
        Ok(())
    }
}

/// As many as one script may change: a new due writes a message's whole body.
fn portions<'a, 'h>(of: &'a [(usize, &'h Handle)]) -> Vec<&'a [(usize, &'h Handle)]> {
    let (mut portions, mut first, mut bytes) = (Vec::new(), 0, 0);
    for (at, (_, handle)) in of.iter().enumerate() {
        bytes += handle.bytes;
        if at > first && (bytes > CALL_BYTES_MAX || at - first == CALL_MAX) {
            portions.push(&of[first..at]);
            (first, bytes) = (at, handle.bytes);
        }
    }
    portions.push(&of[first..]);
    portions
}

fn push_time(call: &mut Call, when: When) {
    match when {
        When::At(due) => call.arg("at").arg(due),
        When::In(ms) => call.arg("in").arg(ms),
        When::AtOnce => call.arg("in").arg(0),
        // An operator never asks for it.
        When::Since { stamp, ms } => call.arg("at").arg(stamp.saturating_add(ms)),
    };
}

fn steered(step: &Step, letter: u8, new_due: UnixMs) -> Result<Steered, Error> {
    Ok(match (letter, step) {
        (b'c', _) => Steered::Cancelled,
        (b'C', _) => Steered::CancelledLeased,
        (b'p', Step::Reschedule(_)) => Steered::Rescheduled(new_due),
        (b'p', _) => Steered::IsParked,
        (b'r', _) => Steered::Revived,
        (b'b', _) => Steered::Buried,
        (b'l', _) => Steered::IsLeased,
        (b'd', _) => Steered::IsDead,
        (b'i', _) => Steered::IdTaken,
        (b'u', _) => Steered::Unknown,
        (other, _) => {
            return Err(Error::Garbled(format!("a step answered `{}`", char::from(other))));
        }
    })
}

/// The lowest score that a message of this time can have: those of parked ones lie up to a
/// millisecond before it.
fn first_score(state: State, at: UnixMs) -> String {
    let at = at as f64;
    match state {
        _ if at < 1.0 => "-inf".into(),
        State::Parked => f64::from_bits((at - 1.0).to_bits() + 1).to_string(),
        State::Leased => (at * TOKENS_PER_MS).to_string(),
        State::Dead => at.to_string(),
    }
}

/// Positive numbers sort as their bits do.
fn place(score: f64, uid: &[u8]) -> Place {
    let mut place = score.max(0.0).to_bits().to_be_bytes().to_vec();
    place.extend_from_slice(uid);
    Place(place.into())
}

fn score_and_uid(place: &Place) -> Result<(f64, &[u8]), Error> {
    let Place(bytes) = place;
    let parts = bytes.split_first_chunk::<8>();
    let parts = parts.map(|(score, uid)| (f64::from_bits(u64::from_be_bytes(*score)), uid));
    parts
        .filter(|(score, _)| score.is_finite())
        .ok_or_else(|| Error::Garbled("a cursor is not one of this store".into()))
}

fn score(value: Option<Value>) -> Result<f64, Error> {
    let text = bytes("list", value)?;
    let number = std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| Error::Garbled("a score is no number".into()))
}

fn seen(
    state: State,
    slice: u32,
    uid: Bytes,
    score: f64,
    meta: &[u8],
    length: u64,
    mut value: Bytes,
) -> Seen {
    let place = place(score, &uid);
    let at = match state {
        State::Leased => score / TOKENS_PER_MS,
        State::Parked | State::Dead => score.ceil(),
    };
    // `meta` is "attempts expiries reason", when it is there at all.
    let meta = String::from_utf8_lossy(meta);
    let mut words = meta.splitn(3, ' ');
    let attempts = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let due = value.try_get_u64().unwrap_or_default();
    Seen {
        uid: Uid::from_bytes(uid),
        state,
        at: at as UnixMs,
        due,
        attempts,
        reason: words.nth(1).filter(|_| state == State::Dead).map(str::to_owned),
        bytes: length.saturating_sub(DUE_BYTES as u64),
        head: envelope::peek(value),
        place,
        slice,
    }
}
