//! Where to begin on a partition: at the lowest mark of the store, not at what the group was told.
//!
//! What was told to the group only serves to notice that a store lost its marks: then xdelay asks
//! instead of guessing, since one answer delivers twice and the other loses.

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::topic_partition_list::Offset;

use super::topology::ANSWER_WITHIN;
use crate::config::From;
use crate::message::Destination;
use crate::metrics::DestinationMetrics;
use crate::store::{Error, Mark, Store};

/// Where to begin.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Start {
    /// The first record that is to be handed out.
    pub mark: Mark,
    /// The earliest that the topic still has.
    pub first: u64,
}

/// Why it cannot begin.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// Something is away: soon again.
    Away(String),
    /// An operator must decide.
    Ask(String),
}

/// What the topic and the group say of a partition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sight {
    /// The earliest offset that it still has.
    pub first: u64,
    /// The offset that its next record gets.
    pub end: u64,
    /// Up to where the group was told.
    pub told: Option<u64>,
}

/// What has to be done to begin.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// The mark is where it should be.
    Resume(Mark),
    /// A mark is put here first: on a partition never read, or as the operator said.
    Put(Mark),
    /// Retention removed so many records that were not read.
    Missed(Mark, u64),
    /// The topic is another one under the same name.
    Reborn(Mark),
}

/// Decides. Pure, so that each case is tested without a cluster.
pub(super) fn choose(
    mark: Option<Mark>,
    sight: Sight,
    from: Option<From>,
) -> Result<Choice, &'static str> {
    let Sight { first, end, told } = sight;
    let fresh = |life, next| Mark { life, next, stamp: None };
    match (mark, told, from) {
        (Some(mark), _, _) if mark.next > end => Ok(Choice::Reborn(fresh(mark.life + 1, first))),
        (Some(mark), _, _) if mark.next < first => {
            Ok(Choice::Missed(fresh(mark.life, first), first - mark.next))
        }
        (Some(mark), _, _) => Ok(Choice::Resume(mark)),
        (None, None, _) | (None, _, Some(From::Topic)) => Ok(Choice::Put(fresh(0, first))),
        (None, Some(told), Some(From::Group)) => {
            Ok(Choice::Put(fresh(0, told.clamp(first, end.max(first)))))
        }
        (None, Some(_), None) => {
            Err("the store does not know how far it was read, but the group does: the store was \
             emptied, or it is another one than before. Run xdelay once with --from=topic, which \
             reads all that the topic still has and may deliver twice, or with --from=group, which \
             goes on where the group is and leaves what was parked lost")
        }
    }
}

/// Finds where to begin, and puts the store's mark there where it is not.
pub(super) async fn find(
    store: &dyn Store,
    destination: &Destination,
    log: u32,
    sight: Sight,
    from: Option<From>,
    metrics: &DestinationMetrics,
) -> Result<Start, Obstacle> {
    let away = |error: Error| Obstacle::Away(error.to_string());
    let mark = store.mark(destination, log).await.map_err(away)?;
    let choice = choose(mark, sight, from).map_err(|why| Obstacle::Ask(why.to_owned()))?;
    let first = sight.first;
    let mark = match choice {
        Choice::Resume(mark) => return Ok(Start { mark, first }),
        Choice::Put(mark) => mark,
        Choice::Missed(mark, count) => {
            metrics.missed(count);
            tracing::error!(%destination, log, count, "retention removed records before they were read");
            mark
        }
        Choice::Reborn(mark) => {
            metrics.recreated();
            tracing::warn!(%destination, log, "the topic is another one under the same name: it is read from its beginning");
            mark
        }
    };
    store.set_mark(destination, log, mark).await.map_err(away)?;
    Ok(Start { mark, first })
}

/// Asks topic and group. Blocks.
///
/// # Errors
/// Why they do not answer.
pub(super) fn look<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    topic: &str,
    partition: i32,
) -> Result<Sight, String> {
    let said = |error: rdkafka::error::KafkaError| error.to_string();
    let (first, end) = consumer.fetch_watermarks(topic, partition, ANSWER_WITHIN).map_err(said)?;
    let mut asked = TopicPartitionList::new();
    asked.add_partition(topic, partition);
    let told = consumer.committed_offsets(asked, ANSWER_WITHIN).map_err(said)?;
    let told = told.find_partition(topic, partition).map(|found| found.offset());
    let told = match told {
        Some(Offset::Offset(offset)) => u64::try_from(offset).ok(),
        _ => None,
    };
    let offset = |offset: i64| u64::try_from(offset).unwrap_or(0);
    Ok(Sight { first: offset(first), end: offset(end), told })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGHT: Sight = Sight { first: 10, end: 50, told: Some(30) };

    fn mark(life: u32, next: u64) -> Mark {
        Mark { life, next, stamp: None }
    }

    #[test]
    fn a_mark_decides_whatever_the_group_was_told() {
        for next in [10, 29, 50] {
            let chosen = choose(Some(mark(0, next)), SIGHT, Some(From::Topic));
            assert_eq!(chosen, Ok(Choice::Resume(mark(0, next))));
        }
        assert_eq!(choose(Some(mark(2, 7)), SIGHT, None), Ok(Choice::Missed(mark(2, 10), 3)));
        assert_eq!(choose(Some(mark(2, 51)), SIGHT, None), Ok(Choice::Reborn(mark(3, 10))));
    }

    #[test]
    fn without_a_mark_it_begins_only_where_nobody_has_read() {
        assert!(choose(None, SIGHT, None).is_err());
        let unread = Sight { told: None, ..SIGHT };
        assert_eq!(choose(None, unread, None), Ok(Choice::Put(mark(0, 10))));
        assert_eq!(choose(None, unread, Some(From::Group)), Ok(Choice::Put(mark(0, 10))));
        assert_eq!(choose(None, SIGHT, Some(From::Topic)), Ok(Choice::Put(mark(0, 10))));
        assert_eq!(choose(None, SIGHT, Some(From::Group)), Ok(Choice::Put(mark(0, 30))));
        let expired = Sight { told: Some(3), ..SIGHT };
        assert_eq!(choose(None, expired, Some(From::Group)), Ok(Choice::Put(mark(0, 10))));
    }
}
