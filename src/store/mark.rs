//! How far a log was parked, kept where its messages are parked and moved with them.
//!
//! A log here is one partition of a topic. Its mark moves in the same step that parks what was
//! read, and only from where the reader believes it to be. Three promises follow:
//!
//! - What is read again is parked no second time, not even after its release: it lies before the
//!   mark.
//! - A store that lost its last seconds lost the mark's last moves with them. The reader finds the
//!   mark behind where it left it, goes back to it, and parks what was lost again from the log.
//! - Two readers of one log cannot leave a hole: whoever is ahead of the mark is refused.
//!
//! With several buckets each has a mark of its own for every log, and all of them move with every
//! batch. After a crash they may differ, so reading starts at the lowest, and a bucket that is
//! further knows which entries it has.

use std::collections::BTreeMap;

use crate::store::Error;

/// How far a log was parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// Grows when the log is found to be another one under the same name. Positions of different
    /// lives have nothing to do with each other.
    pub life: u32,
    /// The first position that is not parked.
    pub next: u64,
    /// The timestamp of the last record before it, by which the log is known again; `None` when no
    /// record was parked yet.
    pub stamp: Option<i64>,
}

impl Mark {
    /// As a store keeps it: `life next stamp`, with `-` for no stamp.
    pub(super) fn encode(&self) -> String {
        let stamp = self.stamp.map_or_else(|| "-".to_owned(), |stamp| stamp.to_string());
        format!("{} {} {stamp}", self.life, self.next)
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub(super) fn decode(text: &str) -> Option<Self> {
        let mut parts = text.split(' ');
        let (life, next, stamp) = (parts.next()?, parts.next()?, parts.next()?);
        let stamp = if stamp == "-" { None } else { Some(stamp.parse().ok()?) };
        let mark = Self { life: life.parse().ok()?, next: next.parse().ok()?, stamp };
        parts.next().is_none().then_some(mark)
    }
}

/// Where one capture was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Which log of the destination.
    pub log: u32,
    /// Which life of it.
    pub life: u32,
    /// Up to where it had been read before: between that and `at` the log holds nothing.
    pub from: u64,
    /// Its position.
    pub at: u64,
    /// Its timestamp.
    pub stamp: Option<i64>,
}

/// Where the mark of a log stands, for a reader who believed it to be elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stand {
    /// Which log.
    pub log: u32,
    /// Its mark; `None` when the store has none.
    pub mark: Option<Mark>,
}

/// One move of one mark, made only if the mark stands at `life` and `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Move {
    pub log: u32,
    pub from: u64,
    pub to: Mark,
}

impl Move {
    /// How a mark begins that this move may be made from.
    pub(super) fn expected(&self) -> String {
        format!("{} {} ", self.to.life, self.from)
    }
}

/// The stretches of logs that a batch was read from, as one bucket sees them.
#[derive(Debug)]
pub(super) struct Stretches<'a> {
    origins: &'a [Origin],
    moves: BTreeMap<u32, Move>,
}

impl<'a> Stretches<'a> {
    /// Each log's stretch: the origins of one log are in its order.
    pub(super) fn of(origins: &'a [Origin]) -> Self {
        let mut moves: BTreeMap<u32, Move> = BTreeMap::new();
        for origin in origins {
            let to = Mark { life: origin.life, next: origin.at + 1, stamp: origin.stamp };
            let stretch =
                moves.entry(origin.log).or_insert(Move { log: origin.log, from: origin.from, to });
            stretch.to = to;
        }
        Self { origins, moves }
    }

    /// What to move, and from where.
    pub(super) fn moves(&self) -> impl Iterator<Item = &Move> + Clone {
        self.moves.values()
    }

    /// Whether the entry at this index of the batch lies before its mark.
    pub(super) fn is_known(&self, index: usize) -> bool {
        let Some(origin) = self.origins.get(index) else { return false };
        self.moves.get(&origin.log).is_some_and(|stretch| origin.at < stretch.from)
    }

    /// Takes note that marks stand elsewhere. One that is further than believed means that part of
    /// its stretch is parked already.
    ///
    /// # Errors
    /// [`Error::Moved`] with those that are further back, of another life, or gone.
    pub(super) fn learn(&mut self, stands: &[Stand]) -> Result<(), Error> {
        let mut refused = Vec::new();
        for stand in stands {
            let Some(stretch) = self.moves.get_mut(&stand.log) else { continue };
            match stand.mark {
                Some(mark) if mark.life == stretch.to.life && mark.next > stretch.from => {
                    stretch.from = mark.next;
                    if mark.next >= stretch.to.next {
                        stretch.to = mark;
                    }
                }
                _ => refused.push(*stand),
            }
        }
        if refused.is_empty() { Ok(()) } else { Err(Error::Moved(refused)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(log: u32, from: u64, at: u64) -> Origin {
        Origin { log, life: 0, from, at, stamp: Some(at as i64) }
    }

    fn mark(next: u64) -> Mark {
        Mark { life: 0, next, stamp: Some(9) }
    }

    #[test]
    fn a_mark_reads_as_it_was_written() {
        for mark in [mark(7), Mark { life: 3, next: 0, stamp: None }] {
            assert_eq!(Mark::decode(&mark.encode()), Some(mark));
        }
        for odd in ["", "1 2", "1 2 x", "1 2 3 4", "-1 2 3"] {
            assert_eq!(Mark::decode(odd), None);
        }
    }

    #[test]
    fn each_log_has_one_stretch_from_its_first_place_to_after_its_last() {
        let origins = [origin(0, 5, 5), origin(1, 2, 4), origin(0, 6, 8)];
        let stretches = Stretches::of(&origins);
        let moves: Vec<_> = stretches.moves().map(|m| (m.log, m.from, m.to.next)).collect();
        assert_eq!(moves, [(0, 5, 9), (1, 2, 5)]);
        assert!((0..3).all(|index| !stretches.is_known(index)));
    }

    #[test]
    fn what_lies_before_a_mark_is_known_and_what_is_beyond_it_is_refused() {
        let origins = [origin(0, 5, 5), origin(0, 6, 6), origin(0, 7, 7)];
        let mut stretches = Stretches::of(&origins);
        stretches.learn(&[Stand { log: 0, mark: Some(mark(7)) }]).expect("further");
        assert!(stretches.is_known(1) && !stretches.is_known(2));
        stretches.learn(&[Stand { log: 0, mark: Some(mark(20)) }]).expect("beyond the batch");
        assert!(stretches.is_known(2));
        assert_eq!(stretches.moves().next().map(|m| (m.from, m.to)), Some((20, mark(20))));
        for behind in [None, Some(mark(4)), Some(Mark { life: 1, ..mark(6) })] {
            let mut stretches = Stretches::of(&origins);
            let stand = Stand { log: 0, mark: behind };
            assert!(matches!(stretches.learn(&[stand]), Err(Error::Moved(at)) if at == [stand]));
        }
    }
}
