//! What was seen of every message, in the order in which it was seen.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use xdelay::store::State;

/// One thing that was seen of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Its producer is about to publish it. It may not be due before this instant, in Unix ms.
    Published { not_before: u64 },
    /// The broker confirmed that publish.
    Confirmed,
    /// xdelay was given it.
    Captured,
    /// The store has it, with this due.
    Parked { due: u64 },
    /// The store did what the message asked for: it carried a cancel.
    Obeyed,
    /// The broker was told that it may forget it.
    Acked,
    /// A replica holds it.
    Leased,
    /// An operator gave it this due.
    Rescheduled { due: u64 },
    /// Another message of its id took its place. `certain`: nobody can have published it.
    Replaced { certain: bool },
    /// Somebody cancelled it and was told so. `certain`: "cancelled", and nothing else.
    Cancelled { certain: bool },
    /// A consumer got it.
    Delivered(Delivery),
    /// The store removed it, for a release that was confirmed.
    Settled,
    /// A holder whose lease had gone to another, or whose message was ended, changed something.
    TouchedByOldToken,
    /// It is kept, for this reason.
    Dead { reason: String },
    /// It was in no safe place: not with the broker, not in the store, and not at its end.
    Nowhere,
    /// The store has it when all is over. `whole`: with a body that can be read.
    Left { state: State, whole: bool },
}

/// How a message arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The due it came with.
    pub due: u64,
    /// Byte for byte what was sent.
    pub intact: bool,
    /// Where it was meant for.
    pub in_its_place: bool,
}

impl Delivery {
    /// As it should be.
    pub fn due(due: u64) -> Self {
        Self { due, intact: true, in_its_place: true }
    }
}

/// An event, when it was seen by the store's clock in Unix ms, and of which uid, where that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub at: u64,
    pub uid: Option<String>,
    pub event: Event,
}

/// How many a store says it has in one state, and how many were found there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    pub state: State,
    pub told: u64,
    pub found: u64,
}

/// Every message by its name, which no other has: mostly its body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    messages: BTreeMap<String, Vec<Line>>,
    counts: Vec<Count>,
    confirmed: HashSet<String>,
    /// Confirmed, and not delivered yet.
    missing: HashSet<String>,
}

impl History {
    /// Notes an event of a message whose uid does not matter.
    pub fn note(&mut self, name: &str, at: u64, event: Event) {
        self.note_of(name, None, at, event);
    }

    /// Notes an event of one uid.
    pub fn note_of(&mut self, name: &str, uid: Option<&str>, at: u64, event: Event) {
        let arrived = |lines: &Vec<Line>| lines.iter().any(Line::is_delivery);
        match event {
            Event::Confirmed => {
                self.confirmed.insert(name.to_owned());
                if !self.messages.get(name).is_some_and(arrived) {
                    self.missing.insert(name.to_owned());
                }
            }
            Event::Delivered(_) => drop(self.missing.remove(name)),
            _ => {}
        }
        let line = Line { at, uid: uid.map(str::to_owned), event };
        self.messages.entry(name.to_owned()).or_default().push(line);
    }

    /// Notes what a store says of itself.
    pub fn count(&mut self, count: Count) {
        self.counts.push(count);
    }

    /// Every message with its lines.
    pub fn messages(&self) -> impl Iterator<Item = (&str, &[Line])> {
        self.messages.iter().map(|(name, lines)| (&**name, &**lines))
    }

    /// What was seen of one.
    pub fn of(&self, name: &str) -> &[Line] {
        self.messages.get(name).map_or(&[], Vec::as_slice)
    }

    pub fn counts(&self) -> &[Count] {
        &self.counts
    }

    /// How many publishes were confirmed.
    pub fn confirmed(&self) -> usize {
        self.confirmed.len()
    }

    /// How many of those were not delivered.
    pub fn missing(&self) -> usize {
        self.missing.len()
    }

    /// How many deliveries there were beyond the first of each message.
    pub fn copies(&self) -> usize {
        let deliveries = |lines: &Vec<Line>| lines.iter().filter(|it| it.is_delivery()).count();
        self.messages.values().map(|lines| deliveries(lines).saturating_sub(1)).sum()
    }

    /// The first instant that anything was seen at.
    fn begin(&self) -> u64 {
        self.messages.values().flatten().map(|line| line.at).min().unwrap_or(0)
    }

    /// One message's lines for a person to read, with times since the beginning.
    pub fn tell(&self, name: &str) -> String {
        let begin = self.begin();
        let mut uids: Vec<&str> = Vec::new();
        let mut text = String::new();
        for Line { at, uid, event } in self.of(name) {
            let uid = uid.as_deref().map_or(String::new(), |uid| {
                let number = uids.iter().position(|known| *known == uid).unwrap_or_else(|| {
                    uids.push(uid);
                    uids.len() - 1
                });
                format!(" (uid {})", number + 1)
            });
            text.push_str(&format!("    {:>8} ms  {}{uid}\n", at - begin, event.since(begin)));
        }
        text
    }
}

impl Line {
    pub fn is_delivery(&self) -> bool {
        matches!(self.event, Event::Delivered(_))
    }
}

impl Event {
    /// In words, with instants counted from `begin`.
    fn since(&self, begin: u64) -> String {
        let due = |due: &u64| format!("due {:+} ms", i128::from(*due) - i128::from(begin));
        match self {
            Self::Published { not_before } => format!("published, not before: {}", due(not_before)),
            Self::Parked { due: at } => format!("parked, {}", due(at)),
            Self::Rescheduled { due: at } => format!("rescheduled, {}", due(at)),
            Self::Delivered(Delivery { due: at, intact, in_its_place }) => {
                let changed = if *intact { "" } else { ", changed" };
                let astray = if *in_its_place { "" } else { ", in another place" };
                format!("delivered, {}{changed}{astray}", due(at))
            }
            other => other.to_string(),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let possibly = |certain: &bool| if *certain { "" } else { ", possibly delivered" };
        match self {
            Self::Confirmed => f.write_str("confirmed to its producer"),
            Self::Captured => f.write_str("captured"),
            Self::Obeyed => f.write_str("what it asks for is done"),
            Self::Acked => f.write_str("acked to the broker"),
            Self::Leased => f.write_str("leased"),
            Self::Replaced { certain } => write!(f, "replaced{}", possibly(certain)),
            Self::Cancelled { certain } => write!(f, "cancelled{}", possibly(certain)),
            Self::Delivered(_) => f.write_str("delivered"),
            Self::Settled => f.write_str("settled"),
            Self::TouchedByOldToken => f.write_str("concluded by a holder who had lost it"),
            Self::Dead { reason } => write!(f, "dead: {reason}"),
            Self::Nowhere => f.write_str("in no safe place"),
            Self::Left { state, whole } => {
                write!(f, "left {state:?}{}", if *whole { "" } else { ", without its body" })
            }
            other => write!(f, "{other:?}"),
        }
    }
}
