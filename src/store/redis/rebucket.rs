//! Spreads what is parked over another number of buckets, while no xdelay runs.
//!
//! A message goes to its new bucket first, synced like a park, and leaves the old one after that.
//! Ended in between, it is in both: then the namespace still says that it is being laid out anew, so
//! that no xdelay starts and releases it twice, and the next run completes it. Whatever is done may
//! be done again.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Buf, Bytes};
use redis::Value;

use super::RedisStore;
use super::answers::{self, array, bytes, integer};
use super::keys::{Bucket, Keys};
use crate::message::{Destination, Uid};
use crate::store::{Error, Mark, Recovery, Store, envelope};

/// Messages read and moved at a time.
const PAGE: usize = 50;

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rebucketed {
    /// Buckets of a destination before.
    pub from: u32,
    /// Buckets of a destination now.
    pub to: u32,
    /// Messages that lie in another bucket now.
    pub moved: u64,
}

/// What stands in the namespace while it is laid out anew: no number, so that no xdelay starts.
pub(super) fn unfinished(from: u32, to: u32) -> String {
    format!("{from} to {to}")
}

pub(super) fn is_unfinished(laid_out: &str) -> Option<(u32, u32)> {
    let (from, to) = laid_out.split_once(" to ")?;
    Some((from.parse().ok()?, to.parse().ok()?))
}

/// A message as it lies in a bucket.
struct Lying {
    uid: Bytes,
    score: Bytes,
    msg: Bytes,
    meta: Bytes,
    id: Bytes,
    target: u32,
}

impl RedisStore {
    /// Lays every destination out in as many buckets as the settings say. Nothing else may use the
    /// namespace meanwhile.
    ///
    /// # Errors
    /// When a message is being released, when one cannot be read by this version, when another
    /// number of buckets was begun and not finished, and when the store does not answer. What was
    /// moved by then is safe, and running it again goes on.
    pub async fn rebucket(&self) -> Result<Rebucketed, Error> {
        let to = self.keys.slices();
        let laid_out = self.fix("buckets", &to.to_string()).await?;
        let from = match (is_unfinished(&laid_out), laid_out.parse::<u32>()) {
            (Some((from, begun)), _) if begun == to => from,
            (Some((_, begun)), _) => {
                return Err(Error::Foreign(format!(
                    "namespace `{}` is being laid out for {begun} buckets: finish that first, with \
                     redis.buckets = {begun}",
                    self.settings.namespace
                )));
            }
            (None, Ok(from)) if from == to => return Ok(Rebucketed { from, to, moved: 0 }),
            (None, Ok(from)) => from,
            (None, Err(_)) => return Err(Error::Garbled("the number of buckets".into())),
        };
        let destinations = self.destinations().await?;
        let before = Keys::new(&self.settings.namespace, from.max(to));
        for destination in &destinations {
            self.is_at_rest(&before, destination).await?;
        }
        self.lay_out(&unfinished(from, to)).await?;
        let mut moved = 0;
        for destination in &destinations {
            for slice in 0..before.slices() {
                moved += self.spread(destination, slice, "due").await?;
                moved += self.spread(destination, slice, "dead").await?;
            }
            self.spread_marks(destination, from).await?;
            self.spread_gone(destination, from).await?;
            self.spread_pause(destination, from).await?;
        }
        self.lay_out(&to.to_string()).await?;
        for destination in &destinations {
            for slice in to..from {
                self.clear(&before.bucket(destination, slice)).await?;
            }
        }
        Ok(Rebucketed { from, to, moved })
    }

    async fn lay_out(&self, buckets: &str) -> Result<(), Error> {
        let key = self.keys.namespace();
        let mut set = redis::cmd("HSET");
        set.arg(&key).arg("buckets").arg(buckets);
        self.ask(&key, set).await.map(drop)
    }

    /// Whether nobody holds a message; what a lost holder had goes back first.
    async fn is_at_rest(&self, keys: &Keys, destination: &Destination) -> Result<(), Error> {
        let mut leased = 0;
        for slice in 0..keys.slices() {
            let bucket = keys.bucket(destination, slice);
            while self.recover_slice(&bucket).await? != Recovery::default() {}
            let mut count = redis::cmd("ZCARD");
            count.arg(&bucket.lease);
            leased += integer("rebucket", Some(self.ask(&bucket.lease, count).await?))?;
        }
        if leased == 0 {
            return Ok(());
        }
        Err(Error::Foreign(format!(
            "{leased} messages of {destination} are being released: stop every xdelay that uses \
             namespace `{}`, wait until release.lease is over, and try again",
            self.settings.namespace
        )))
    }

    /// Moves what lies in one index of a bucket and belongs elsewhere.
    async fn spread(
        &self,
        destination: &Destination,
        slice: u32,
        index: &str,
    ) -> Result<u64, Error> {
        let bucket = self.keys.bucket(destination, slice);
        let (mut staying, mut moved) = (0, 0);
        loop {
            let page = self.page(&bucket, slice, index, staying).await?;
            let read = page.len();
            let mut of_target: BTreeMap<u32, Vec<Lying>> = BTreeMap::new();
            for lying in page {
                of_target.entry(lying.target).or_default().push(lying);
            }
            staying += of_target.remove(&slice).map_or(0, |here| here.len());
            for (target, group) in of_target {
                self.hand_over(&bucket, &self.keys.bucket(destination, target), index, &group)
                    .await?;
                moved += group.len() as u64;
            }
            if read < PAGE {
                return Ok(moved);
            }
        }
    }

    /// Some messages of an index, in its order, behind so many.
    async fn page(
        &self,
        bucket: &Bucket,
        slice: u32,
        index: &str,
        behind: usize,
    ) -> Result<Vec<Lying>, Error> {
        let key = if index == "due" { &bucket.due } else { &bucket.dead };
        let mut range = redis::cmd("ZRANGE");
        range.arg(key).arg(behind).arg(behind + PAGE - 1).arg("WITHSCORES");
        let mut items = array("rebucket", self.ask(key, range).await?)?.into_iter();
        let mut scored = Vec::new();
        while let Some(uid) = items.next() {
            scored.push((bytes("rebucket", Some(uid))?, bytes("rebucket", items.next())?));
        }
        if scored.is_empty() {
            return Ok(Vec::new());
        }
        let uids: Vec<&[u8]> = scored.iter().map(|(uid, _)| &uid[..]).collect();
        let msgs = self.fields(&bucket.msg, &uids).await?;
        let metas = self.fields(&bucket.meta, &uids).await?;
        let mut page = Vec::new();
        let mut ids = Vec::new();
        for (((uid, score), msg), meta) in scored.into_iter().zip(msgs).zip(metas) {
            let (target, id) = self.target(slice, &uid, &msg)?;
            ids.push(id);
            page.push(Lying { uid, score, msg, meta, id: Bytes::new(), target });
        }
        let named: Vec<&[u8]> = ids.iter().map(|id| id.as_bytes()).collect();
        let holders = self.fields(&bucket.ids, &named).await?;
        for ((lying, id), holder) in page.iter_mut().zip(ids).zip(holders) {
            // What is dead may have left its id to another.
            if !id.is_empty() && holder == lying.uid {
                lying.id = id.into();
            }
        }
        Ok(page)
    }

    /// Where a message belongs, and its producer's id. What is damaged belongs nowhere in particular.
    fn target(&self, slice: u32, uid: &Bytes, msg: &Bytes) -> Result<(u32, String), Error> {
        let mut envelope = msg.clone();
        let _due = envelope.try_get_u64();
        match envelope::unpack(Uid::from_bytes(uid.clone()), envelope) {
            Ok(message) => {
                let id = message.id.as_ref().map(|id| id.as_str().to_owned());
                Ok((self.keys.slice_of_message(&message), id.unwrap_or_default()))
            }
            Err(fault @ envelope::Fault::Newer { .. }) => {
                Err(Error::Foreign(format!("{fault}: run `xdelay rebucket` of that version")))
            }
            Err(envelope::Fault::Damaged(_)) => Ok((slice % self.keys.slices(), String::new())),
        }
    }

    async fn hand_over(
        &self,
        old: &Bucket,
        new: &Bucket,
        index: &str,
        group: &[Lying],
    ) -> Result<(), Error> {
        let keys = |of: &Bucket| {
            [&of.due, &of.lease, &of.dead, &of.msg, &of.meta, &of.ids].map(String::clone)
        };
        let (new, old) = (keys(new), keys(old));
        let mut receive = self.scripts.receive.call(&new.each_ref().map(String::as_str));
        for lying in group {
            receive.arg(index).arg(&lying.uid[..]).arg(&lying.score[..]).arg(&lying.msg[..]);
            receive.arg(&lying.meta[..]).arg(&lying.id[..]);
        }
        let super::Settings { durability, min_replicas, .. } = self.settings;
        self.scripts.receive.run_durably(&self.parks, receive, durability, min_replicas).await?;
        let mut leave = self.scripts.leave.call(&old.each_ref().map(String::as_str));
        for lying in group {
            leave.arg(&lying.uid[..]).arg(&lying.id[..]);
        }
        self.scripts.leave.run(&self.rest, leave).await.map(drop)
    }

    /// A log was parked as far as every old bucket says; one without its mark has lost what it had.
    async fn spread_marks(&self, destination: &Destination, from: u32) -> Result<(), Error> {
        let before = Keys::new(&self.settings.namespace, from);
        let mut logs: BTreeMap<Bytes, Vec<Mark>> = BTreeMap::new();
        for slice in 0..from {
            let key = before.bucket(destination, slice).mark;
            let mut all = redis::cmd("HGETALL");
            all.arg(&key);
            let mut items = array("rebucket", self.ask(&key, all).await?)?.into_iter();
            while let Some(log) = items.next() {
                let mark = answers::mark(&bytes("rebucket", items.next())?)?;
                logs.entry(bytes("rebucket", Some(log))?).or_default().extend(mark);
            }
        }
        let whole = logs.iter().filter(|(_, marks)| marks.len() == from as usize);
        let marks: Vec<_> =
            whole.filter_map(|(log, marks)| Some((log, marks.iter().min()?))).collect();
        for slice in 0..self.keys.slices() {
            let key = self.keys.bucket(destination, slice).mark;
            if slice >= from {
                self.remove(&key).await?;
            }
            for (log, mark) in &marks {
                let mut set = redis::cmd("HSET");
                set.arg(&key).arg(&log[..]).arg(mark.encode());
                self.ask(&key, set).await?;
            }
        }
        Ok(())
    }

    /// What an operator ended stays ended wherever its park may yet arrive.
    async fn spread_gone(&self, destination: &Destination, from: u32) -> Result<(), Error> {
        let before = Keys::new(&self.settings.namespace, from);
        let mut gone = Vec::new();
        for slice in 0..from {
            let key = before.bucket(destination, slice).gone;
            let mut range = redis::cmd("ZRANGE");
            range.arg(&key).arg(0).arg(-1).arg("WITHSCORES");
            let mut items = array("rebucket", self.ask(&key, range).await?)?.into_iter();
            while let Some(uid) = items.next() {
                let uid = bytes("rebucket", Some(uid))?;
                gone.push((bytes("rebucket", items.next())?, uid));
            }
        }
        for slice in 0..self.keys.slices() {
            let key = self.keys.bucket(destination, slice).gone;
            for page in gone.chunks(PAGE) {
                let mut add = redis::cmd("ZADD");
                add.arg(&key);
                for (when, uid) in page {
                    add.arg(&when[..]).arg(&uid[..]);
                }
                self.ask(&key, add).await?;
            }
        }
        Ok(())
    }

    /// What an operator held back stays held back.
    async fn spread_pause(&self, destination: &Destination, from: u32) -> Result<(), Error> {
        let before = Keys::new(&self.settings.namespace, from);
        let mut paused = BTreeSet::new();
        for slice in 0..from {
            let key = before.bucket(destination, slice).paused;
            let mut exists = redis::cmd("EXISTS");
            exists.arg(&key);
            paused.insert(integer("rebucket", Some(self.ask(&key, exists).await?))? == 1);
        }
        if paused.contains(&true) {
            crate::store::Steer::pause(self, destination, true).await?;
        }
        Ok(())
    }

    /// Removes what is left of a bucket that is no more: its counters and marks.
    async fn clear(&self, bucket: &Bucket) -> Result<(), Error> {
        for key in [&bucket.mark, &bucket.seq, &bucket.claims, &bucket.paused, &bucket.gone] {
            self.remove(key).await?;
        }
        Ok(())
    }

    async fn remove(&self, key: &str) -> Result<(), Error> {
        let mut remove = redis::cmd("DEL");
        remove.arg(key);
        self.ask(key, remove).await.map(drop)
    }

    /// Fields of a hash, empty where there are none.
    async fn fields(&self, key: &str, fields: &[&[u8]]) -> Result<Vec<Bytes>, Error> {
        let mut get = redis::cmd("HMGET");
        get.arg(key).arg(fields);
        let found = array("rebucket", self.ask(key, get).await?)?.into_iter();
        found
            .map(|value| match value {
                Value::Nil => Ok(Bytes::new()),
                value => bytes("rebucket", Some(value)),
            })
            .collect()
    }
}
