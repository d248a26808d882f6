//! The store on Redis or Valkey.
//!
//! A destination's messages lie in one bucket ([`keys`]): sorted sets for what is parked, leased
//! and dead, a hash of envelopes, and little else. Every change is one script on one bucket
//! ([`scripts`]), so it happens whole or not at all, also when Redis is killed in the middle.
//! Parks travel on a connection of their own, since a durability barrier (`WAITAOF`, `WAIT`)
//! holds up whatever comes after it on the same one.

mod address;
mod answers;
mod arguments;
mod cluster;
mod endpoint;
mod findings;
mod keys;
mod link;
mod masters;
mod park;
mod rebucket;
mod scripts;
mod sentinel;
mod server;
mod slot;
mod steer;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use async_trait::async_trait;
use futures_util::future::{join_all, try_join_all};
use redis::{Cmd, Value};

use self::keys::{Bucket, Keys};
use self::masters::Masters;
pub use self::rebucket::Rebucketed;
use self::scripts::{Call, Script, Scripts};
pub use self::slot::slot_of;
use super::{
    Census, Claim, DUE_IN_BOUNDS_MS, EXPIRIES_BEFORE_ALONE, Entry, Error, Limit, Mark, NotDone,
    Origin, Parkings, Postponed, Recovery, Store, Ticket,
};
use crate::broker::Released;
use crate::clock::{StoreClock, millis};
use crate::config::Durability;
use crate::crash::{self, Point};
use crate::finding::Finding;
use crate::message::{BrokerKind, Destination, ProducerId, Reason};

/// Most messages one script call may claim, conclude or recover: Lua cannot unpack many thousands,
/// and a long script holds up everybody else.
const CALL_MAX: usize = 500;
/// How the keys are laid out, as the headers of the scripts in `lua/` say.
const LAYOUT: &str = "1";

/// How to reach a Redis, and how to lay messages out in it.
#[derive(Clone)]
pub struct Settings {
    /// `redis://`, `rediss://` or `unix://`, or with `-sentinel` or `-cluster` behind the scheme
    /// and several hosts; secrets included.
    pub url: String,
    /// Prefix of every key.
    pub namespace: String,
    /// Buckets for each destination.
    pub buckets: u32,
    /// What must hold before a capture is acked.
    pub durability: Durability,
    /// For [`Durability::Replicas`].
    pub min_replicas: u32,
}

/// Messages parked in Redis.
pub struct RedisStore {
    settings: Settings,
    keys: Keys,
    scripts: Scripts,
    parks: Masters,
    rest: Masters,
    clock: Arc<StoreClock>,
    /// Whose turn it is among the buckets of a destination.
    first_slice: AtomicU32,
    /// The last sequence each bucket answered.
    sequences: Mutex<HashMap<String, i64>>,
}

impl RedisStore {
    /// Connects to nothing yet.
    ///
    /// # Errors
    /// When the URL cannot be used.
    pub fn new(settings: Settings, clock: Arc<StoreClock>) -> Result<Self, Error> {
        Ok(Self {
            keys: Keys::new(&settings.namespace, settings.buckets),
            scripts: Scripts::new(),
            parks: Masters::new(&settings.url)?,
            rest: Masters::new(&settings.url)?,
            clock,
            first_slice: AtomicU32::new(0),
            sequences: Mutex::default(),
            settings,
        })
    }

    fn buckets(&self, destination: &Destination) -> Vec<(u32, Bucket)> {
        (0..self.keys.slices()).map(|slice| (slice, self.keys.bucket(destination, slice))).collect()
    }

    async fn claim_slice(&self, slice: u32, bucket: Bucket, limit: Limit) -> Result<Claim, Error> {
        let mut call = self.scripts.claim.call(&[
            &bucket.due,
            &bucket.lease,
            &bucket.dead,
            &bucket.msg,
            &bucket.meta,
            &bucket.claims,
            &bucket.paused,
        ]);
        call.arg(limit.messages.min(CALL_MAX))
            .arg(limit.bytes)
            .arg(millis(limit.lease))
            .arg(EXPIRIES_BEFORE_ALONE)
            .arg(u8::from(limit.alone));
        let asked = Instant::now();
        let answer = self.scripts.claim.run(&self.rest, call).await?;
        let claim = answers::claimed(answer, slice)?;
        self.clock.observe(claim.now, asked);
        Ok(claim)
    }

    async fn recover_slice(&self, bucket: &Bucket) -> Result<Recovery, Error> {
        let keys = [&bucket.due, &bucket.lease, &bucket.dead, &bucket.meta].map(String::as_str);
        let mut call = self.scripts.recover.call(&keys);
        call.arg(CALL_MAX).arg(EXPIRIES_BEFORE_ALONE);
        answers::recovered(self.scripts.recover.run(&self.rest, call).await?)
    }

    /// Runs one concluding script over a batch, bucket by bucket, some hundred at a time.
    async fn conclude<T: std::fmt::Debug>(
        &self,
        destination: &Destination,
        batch: Vec<T>,
        how: &Conclusion<'_, T>,
    ) -> Result<usize, NotDone<T>> {
        let (mut held, mut failure) = (0, None);
        for slice in 0..self.keys.slices() {
            let bucket = self.keys.bucket(destination, slice);
            let of_slice: Vec<&T> =
                batch.iter().filter(|item| (how.ticket)(item).slice() == slice).collect();
            for some in of_slice.chunks(CALL_MAX) {
                let mut call = how.script.call(&(how.keys)(&bucket));
                for item in some {
                    let ticket = (how.ticket)(item);
                    call.arg(ticket.uid().as_bytes()).arg(ticket.token());
                    (how.args)(item, &mut call);
                }
                match how.script.run(&self.rest, call).await.and_then(answers::held) {
                    Ok(count) => held += count,
                    Err(error) => failure = Some(error),
                }
            }
        }
        match failure {
            Some(source) => Err(NotDone { source, batch }),
            None => Ok(held),
        }
    }

    /// Stores a setting of the namespace once, and answers what is stored.
    async fn fix(&self, field: &str, value: &str) -> Result<String, Error> {
        let key = self.keys.namespace();
        let mut set = redis::cmd("HSETNX");
        set.arg(&key).arg(field).arg(value);
        let mut get = redis::cmd("HGET");
        get.arg(&key).arg(field);
        let answers = self.rest.ask(slot_of(&key), vec![set, get]).await?;
        match answers.into_iter().nth(1) {
            Some(Value::BulkString(stored)) => Ok(String::from_utf8_lossy(&stored).into_owned()),
            other => Err(Error::Garbled(format!("{field} of the namespace is {other:?}"))),
        }
    }

    /// Sends one command on one key.
    async fn ask(&self, key: &str, command: Cmd) -> Result<Value, Error> {
        let answers = self.rest.ask(slot_of(key), vec![command]).await?;
        Ok(answers.into_iter().next().unwrap_or(Value::Nil))
    }
}

/// One of the scripts that end a lease: on which keys, and with what besides uid and token.
struct Conclusion<'a, T> {
    script: &'a Script,
    keys: fn(&Bucket) -> Vec<&str>,
    ticket: fn(&T) -> &Ticket,
    args: fn(&T, &mut Call),
}

#[async_trait]
impl Store for RedisStore {
    async fn open(&self, destination: &Destination) -> Result<(), Error> {
        let buckets = self.settings.buckets.to_string();
        let laid_out = self.fix("buckets", &buckets).await?;
        if laid_out != buckets {
            let namespace = &self.settings.namespace;
            return Err(Error::Foreign(match rebucket::is_unfinished(&laid_out) {
                Some((from, to)) => format!(
                    "namespace `{namespace}` is being laid out for {to} buckets instead of {from}, \
                     or that was ended in the middle: run `xdelay rebucket` with redis.buckets = \
                     {to} to its end"
                ),
                None => format!(
                    "namespace `{namespace}` was laid out with redis.buckets = {laid_out}, not \
                     {buckets}: set it back, or stop every xdelay that uses it and run `xdelay \
                     rebucket`, or choose another redis.namespace"
                ),
            }));
        }
        let layout = self.fix("layout", LAYOUT).await?;
        if layout != LAYOUT {
            return Err(Error::Foreign(format!(
                "namespace `{}` is laid out for another version of xdelay (layout {layout}, this \
                 one knows {LAYOUT}): run that version, or choose another redis.namespace",
                self.settings.namespace
            )));
        }
        let key = self.keys.destinations();
        let mut add = redis::cmd("SADD");
        add.arg(&key).arg(destination.listing());
        self.ask(&key, add).await.map(drop)
    }

    async fn destinations(&self) -> Result<Vec<Destination>, Error> {
        let key = self.keys.destinations();
        let mut members = redis::cmd("SMEMBERS");
        members.arg(&key);
        let names: Vec<String> = redis::from_redis_value(self.ask(&key, members).await?)
            .map_err(|error| Error::Garbled(format!("destinations: {error}")))?;
        let mut found: Vec<_> =
            names.iter().filter_map(|name| Destination::from_listing(name)).collect();
        found.sort();
        Ok(found)
    }

    async fn bind(&self, broker: BrokerKind, identity: &str) -> Result<(), Error> {
        let field = format!("broker:{}", broker.as_str());
        let bound = self.fix(&field, identity).await?;
        if bound == identity {
            return Ok(());
        }
        Err(Error::Foreign(format!(
            "namespace `{}` parks for {bound}, and this broker is {identity}: choose another \
             redis.namespace; if it is the same broker under a new name, run `HSET {} {field} \
             {identity}` in Redis",
            self.settings.namespace,
            self.keys.namespace(),
        )))
    }

    async fn park_read(
        &self,
        destination: &Destination,
        batch: &[Entry],
        origins: &[Origin],
    ) -> Result<Parkings, Error> {
        self.park_all(destination, batch, origins).await
    }

    async fn mark(&self, destination: &Destination, log: u32) -> Result<Option<Mark>, Error> {
        let reads = self.buckets(destination).into_iter().map(|(_, bucket)| async move {
            let mut read = redis::cmd("HGET");
            read.arg(&bucket.mark).arg(log);
            self.ask(&bucket.mark, read).await
        });
        let mut marks = Vec::new();
        for answer in try_join_all(reads).await? {
            match answer {
                // A bucket that lost its mark has lost what it parked.
                Value::Nil => return Ok(None),
                Value::BulkString(text) => marks.extend(answers::mark(&text)?),
                _ => return Err(Error::Garbled("a mark is not what was written".into())),
            }
        }
        Ok(marks.into_iter().min())
    }

    async fn set_mark(&self, destination: &Destination, log: u32, mark: Mark) -> Result<(), Error> {
        let sets = self.buckets(destination).into_iter().map(|(_, bucket)| async move {
            let mut set = redis::cmd("HSET");
            set.arg(&bucket.mark).arg(log).arg(mark.encode());
            self.ask(&bucket.mark, set).await
        });
        try_join_all(sets).await.map(drop)
    }

    async fn claim(&self, destination: &Destination, limit: Limit) -> Result<Claim, Error> {
        let slices = self.keys.slices() as usize;
        let first = self.first_slice.fetch_add(1, Ordering::Relaxed) as usize;
        let share = |slice: u32| {
            // What does not divide goes to other slices every time.
            let place = (slice as usize + first) % slices;
            let messages = limit.messages / slices + usize::from(place < limit.messages % slices);
            Limit { messages, bytes: limit.bytes / slices as u64, ..limit }
        };
        let calls = self
            .buckets(destination)
            .into_iter()
            .map(|(slice, bucket)| self.claim_slice(slice, bucket, share(slice)));
        answers::merge_claims(join_all(calls).await)
    }

    async fn settle(
        &self,
        destination: &Destination,
        batch: Vec<(Ticket, Released)>,
    ) -> Result<usize, NotDone<(Ticket, Released)>> {
        for (ticket, released) in &batch {
            assert_eq!(ticket.uid(), released.uid(), "a release settles its own ticket");
        }
        let how = Conclusion {
            script: &self.scripts.settle,
            keys: |bucket| vec![&bucket.lease, &bucket.msg, &bucket.meta, &bucket.ids],
            ticket: |(ticket, _): &(Ticket, Released)| ticket,
            args: |(ticket, _), call| {
                call.arg(ticket.id().map_or("", ProducerId::as_str));
            },
        };
        let settled = self.conclude(destination, batch, &how).await;
        crash::pass(Point::SettledUnanswered);
        settled
    }

    async fn postpone(
        &self,
        destination: &Destination,
        batch: Vec<Postponed>,
    ) -> Result<usize, NotDone<Postponed>> {
        let how = Conclusion {
            script: &self.scripts.postpone,
            keys: |bucket| vec![&bucket.due, &bucket.lease, &bucket.meta],
            ticket: |postponed: &Postponed| &postponed.ticket,
            args: |postponed, call| {
                call.arg(postponed.ticket.due())
                    .arg(millis(postponed.wait))
                    .arg(u8::from(postponed.counts));
            },
        };
        self.conclude(destination, batch, &how).await
    }

    async fn bury(
        &self,
        destination: &Destination,
        batch: Vec<(Ticket, Reason)>,
    ) -> Result<usize, NotDone<(Ticket, Reason)>> {
        let how = Conclusion {
            script: &self.scripts.bury,
            keys: |bucket| vec![&bucket.lease, &bucket.dead, &bucket.meta],
            ticket: |(ticket, _): &(Ticket, Reason)| ticket,
            args: |(_, reason), call| {
                call.arg(reason.as_str());
            },
        };
        self.conclude(destination, batch, &how).await
    }

    async fn recover(&self, destination: &Destination) -> Result<Recovery, Error> {
        let (mut sum, mut failure) = (Recovery::default(), None);
        for (_, bucket) in self.buckets(destination) {
            match self.recover_slice(&bucket).await {
                Ok(found) => {
                    sum.recovered += found.recovered;
                    sum.buried += found.buried;
                }
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(sum), Err)
    }

    async fn census(&self, destination: &Destination) -> Result<Census, Error> {
        let mut sum = Census::default();
        for (_, bucket) in self.buckets(destination) {
            let mut call = self.scripts.census.call(&[
                &bucket.due,
                &bucket.lease,
                &bucket.dead,
                &bucket.paused,
            ]);
            call.arg(&DUE_IN_BOUNDS_MS);
            let found = answers::census(self.scripts.census.run(&self.rest, call).await?)?;
            answers::add_census(&mut sum, &found);
        }
        Ok(sum)
    }

    async fn check(&self) -> Vec<Finding> {
        findings::of(&self.parks, &self.rest, &self.settings).await
    }
}
