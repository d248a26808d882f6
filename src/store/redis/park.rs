//! How a batch is parked: in every bucket that has a part of it, and with it the marks of the logs
//! that it was read from.

use std::sync::PoisonError;
use std::time::Instant;

use futures_util::future::try_join_all;

use super::keys::Bucket;
use super::{RedisStore, Settings, answers, arguments};
use crate::crash::{self, Point};
use crate::message::Destination;
use crate::store::mark::Stretches;
use crate::store::{Entry, Error, Origin, Parkings, Stand};

/// How often a batch is parked anew because marks turn out to be further than its reader believed.
const MOVES_MAX: usize = 4;

/// What one bucket did with its share of a batch.
struct Slice {
    known: Vec<usize>,
    unknown: Vec<usize>,
    parked: answers::Parked,
    rolled_back: bool,
}

impl RedisStore {
    /// Parks a batch, whole or not at all in each bucket.
    pub(super) async fn park_all(
        &self,
        destination: &Destination,
        batch: &[Entry],
        origins: &[Origin],
    ) -> Result<Parkings, Error> {
        let mut of_buckets: Vec<Vec<usize>> = vec![Vec::new(); self.keys.slices() as usize];
        for (place, entry) in batch.iter().enumerate() {
            of_buckets[self.keys.slice_of(entry) as usize].push(place);
        }
        // Marks move in every bucket: one without entries has parked all there is for it.
        let buckets = self.buckets(destination).into_iter().zip(&of_buckets);
        let calls = buckets
            .filter(|(_, of_bucket)| !of_bucket.is_empty() || !origins.is_empty())
            .map(|((_, bucket), of_bucket)| self.park_bucket(bucket, batch, of_bucket, origins));
        let mut merged = answers::Merged::new(batch.len());
        for slice in try_join_all(calls).await? {
            slice.known.into_iter().for_each(|place| merged.add_known(place));
            merged.add(&slice.unknown, slice.parked, slice.rolled_back);
        }
        merged.finish(batch)
    }

    /// Parks the entries of one bucket and moves its marks; also says whether the bucket went back
    /// in time. `Err` says where marks are, when they are elsewhere.
    async fn park_slice(
        &self,
        bucket: &Bucket,
        entries: &[&Entry],
        stretches: &Stretches<'_>,
    ) -> Result<Result<(answers::Parked, bool), Vec<Stand>>, Error> {
        let mut call = self.scripts.park.call(&[
            &bucket.due,
            &bucket.lease,
            &bucket.dead,
            &bucket.msg,
            &bucket.meta,
            &bucket.ids,
            &bucket.seq,
            &bucket.mark,
            &bucket.gone,
        ]);
        for step in stretches.moves() {
            arguments::push_move(&mut call, step);
        }
        for entry in entries {
            arguments::push_entry(&mut call, entry);
        }
        let Settings { durability, min_replicas, .. } = self.settings;
        let asked = Instant::now();
        let park = self.scripts.park.run_durably(&self.parks, call, durability, min_replicas);
        let answer = crash::sent(Point::ParkedUnanswered, park).await?;
        crash::pass(Point::ParkedUnproven);
        let parked = match answers::parked(answer, entries)? {
            Ok(parked) => parked,
            Err(stands) => return Ok(Err(stands)),
        };
        self.clock.observe(parked.now, asked);
        let before = parked.sequence - entries.len() as i64;
        let rolled_back = self.went_back(bucket.seq.clone(), before, parked.sequence);
        Ok(Ok((parked, rolled_back)))
    }

    /// Parks what of a batch belongs to one bucket. Marks that are further than the reader believed
    /// say what is parked already; the rest is then parked from there.
    async fn park_bucket(
        &self,
        bucket: Bucket,
        batch: &[Entry],
        of_bucket: &[usize],
        origins: &[Origin],
    ) -> Result<Slice, Error> {
        let mut stretches = Stretches::of(origins);
        for _ in 0..MOVES_MAX {
            let (known, unknown): (Vec<usize>, Vec<usize>) =
                of_bucket.iter().partition(|index| stretches.is_known(**index));
            let entries: Vec<&Entry> = unknown.iter().map(|index| &batch[*index]).collect();
            match self.park_slice(&bucket, &entries, &stretches).await? {
                Ok((parked, rolled_back)) => {
                    return Ok(Slice { known, unknown, parked, rolled_back });
                }
                Err(stands) => stretches.learn(&stands)?,
            }
        }
        Err(Error::Unavailable("others move the marks of this batch".into()))
    }

    /// Takes note of a bucket's sequence. True when it was lower before this batch than it was
    /// after an earlier one: then what came between is gone.
    fn went_back(&self, bucket: String, before: i64, after: i64) -> bool {
        let mut sequences = self.sequences.lock().unwrap_or_else(PoisonError::into_inner);
        let last = sequences.insert(bucket, after);
        last.is_some_and(|last| before < last)
    }
}
