//! What must hold of every message, whatever happened: one list for all layers of tests.
//!
//! The store contract, the model, the crash tests and the chaos run keep a [`History`] each, as far as
//! they can see, and hold it against the same [`INVARIANTS`]. Their numbers are those of
//! `docs/reliability.md`, which also says who looks at those that cannot be seen in a history.

mod history;
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;

pub use history::{Count, Delivery, Event, History, Line};
use xdelay::store::State;

/// One promise, and how it is seen to be broken.
pub struct Invariant {
    pub number: u8,
    pub sentence: &'static str,
    breaches: fn(&History, &Terms) -> Vec<Breach>,
}

/// What a run may cost. What is `None` is not looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terms {
    /// Most deliveries beyond the first of a message, in all; none without a fault.
    pub copies: Option<usize>,
    /// From when on nothing was wrong any more, and how many ms late a message may be from then on.
    pub healed: Option<(u64, u64)>,
    /// Whether what the store had confirmed may be gone: it promised less.
    pub may_lose: bool,
}

impl Terms {
    /// Of a run in which anything did.
    pub const FAULTS: Self = Self { copies: None, healed: None, may_lose: false };
}

/// A message of which an invariant does not hold.
#[derive(Debug, PartialEq, Eq)]
pub struct Breach {
    pub message: String,
    pub what: String,
}

/// All of them.
pub const INVARIANTS: &[Invariant] = &[
    Invariant {
        number: 1,
        sentence: "every confirmed publish ends delivered, dead with a reason, replaced or cancelled",
        breaches: conserved,
    },
    Invariant {
        number: 1,
        sentence: "until its end a confirmed message is with the broker or in the store",
        breaches: never_nowhere,
    },
    Invariant { number: 2, sentence: "nothing is invented", breaches: nothing_invented },
    Invariant {
        number: 3,
        sentence: "a uid is in exactly one place, and its body with it",
        breaches: one_place,
    },
    Invariant { number: 4, sentence: "nothing is early", breaches: never_early },
    Invariant {
        number: 5,
        sentence: "the backlog drains when nothing is wrong any more",
        breaches: drained,
    },
    Invariant {
        number: 6,
        sentence: "there are no more copies than faults explain",
        breaches: few_copies,
    },
    Invariant { number: 7, sentence: "what arrives is what was sent", breaches: intact },
    Invariant { number: 8, sentence: "it arrives where it was meant for", breaches: in_its_place },
    Invariant {
        number: 9,
        sentence: "no ack before the store has it, no settle before it was delivered",
        breaches: promises_in_order,
    },
    Invariant { number: 10, sentence: "an old token changes nothing", breaches: fenced },
    Invariant {
        number: 10,
        sentence: "what was plainly cancelled or replaced is not delivered",
        breaches: ends_are_final,
    },
    Invariant {
        number: 11,
        sentence: "what is due is not held up when nothing is wrong",
        breaches: no_stall,
    },
    Invariant {
        number: 17,
        sentence: "the counts of a store are what is in it",
        breaches: counts_are_true,
    },
];

/// Most messages that a report tells the story of.
const TOLD_MAX: usize = 5;

/// Holds a history against every invariant.
///
/// # Errors
/// A report for a person: each invariant that is broken, by which messages, and what was seen of them.
pub fn check(history: &History, terms: &Terms) -> Result<(), String> {
    let mut report = String::new();
    let mut told = HashSet::new();
    for Invariant { number, sentence, breaches } in INVARIANTS {
        let breaches = breaches(history, terms);
        if breaches.is_empty() {
            continue;
        }
        let _ =
            writeln!(report, "invariant {number} is broken {} times: {sentence}", breaches.len());
        for Breach { message, what } in breaches.iter().take(TOLD_MAX) {
            let _ = writeln!(report, "  {message}: {what}");
            if told.insert(message.clone()) {
                report.push_str(&history.tell(message));
            }
        }
    }
    if report.is_empty() { Ok(()) } else { Err(report) }
}

/// Panics with the report when an invariant is broken.
#[track_caller]
pub fn hold(history: &History, terms: &Terms) {
    if let Err(report) = check(history, terms) {
        panic!("\n{report}");
    }
}

/// Goes through all messages; `look` says what is wrong with one.
fn each(history: &History, mut look: impl FnMut(&[Line]) -> Option<String>) -> Vec<Breach> {
    let breach = |(name, lines): (&str, &[Line])| {
        look(lines).map(|what| Breach { message: name.to_owned(), what })
    };
    history.messages().filter_map(breach).collect()
}

fn has(lines: &[Line], is: impl Fn(&Event) -> bool) -> bool {
    lines.iter().any(|line| is(&line.event))
}

/// Whether nothing more has to become of a message.
pub fn is_over(lines: &[Line]) -> bool {
    has(lines, is_end)
}

fn is_end(event: &Event) -> bool {
    use Event::*;
    matches!(event, Delivered(_) | Dead { .. } | Replaced { .. } | Cancelled { .. } | Obeyed)
}

fn conserved(history: &History, terms: &Terms) -> Vec<Breach> {
    if terms.may_lose {
        return Vec::new();
    }
    each(history, |lines| {
        let confirmed = has(lines, |event| *event == Event::Confirmed);
        let waits = has(lines, |event| matches!(event, Event::Left { .. }));
        (confirmed && !waits && !has(lines, is_end)).then(|| "lost".to_owned())
    })
}

fn never_nowhere(history: &History, _: &Terms) -> Vec<Breach> {
    each(history, |lines| {
        let nowhere = has(lines, |event| *event == Event::Nowhere);
        nowhere.then(|| "for a while a crash would have lost it".to_owned())
    })
}

fn nothing_invented(history: &History, _: &Terms) -> Vec<Breach> {
    each(history, |lines| {
        let published = lines.iter().position(|it| matches!(it.event, Event::Published { .. }));
        let delivered = lines.iter().position(Line::is_delivery)?;
        let known = published.is_some_and(|published| published < delivered);
        (!known).then(|| "delivered, and nobody had published it".to_owned())
    })
}

fn one_place(history: &History, _: &Terms) -> Vec<Breach> {
    each(history, |lines| {
        let mut places = BTreeMap::<_, Vec<State>>::new();
        for line in lines {
            if let Event::Left { state, whole } = &line.event {
                places.entry(line.uid.as_deref()).or_default().push(*state);
                if !whole {
                    return Some("its body is not in the store".to_owned());
                }
            }
        }
        let twice = places.into_values().find(|places| places.len() > 1)?;
        Some(format!("one uid is in several places: {twice:?}"))
    })
}

fn never_early(history: &History, _: &Terms) -> Vec<Breach> {
    each(history, |lines| {
        let mut earliest = u64::MAX;
        for Line { at, event, .. } in lines {
            match event {
                Event::Published { not_before } => earliest = earliest.min(*not_before),
                Event::Rescheduled { due } => earliest = earliest.min(*due),
                Event::Delivered(delivery) if *at < delivery.due => {
                    return Some(format!("came {} ms before its due", delivery.due - at));
                }
                Event::Delivered(delivery) if delivery.due < earliest && earliest < u64::MAX => {
                    return Some(format!("was due {} ms too soon", earliest - delivery.due));
                }
                _ => {}
            }
        }
        None
    })
}

fn drained(history: &History, terms: &Terms) -> Vec<Breach> {
    each(history, |lines| {
        terms.healed?;
        let left = lines.iter().find_map(|line| match line.event {
            Event::Left { state, .. } if state != State::Dead => Some(state),
            _ => None,
        })?;
        Some(format!("still {left:?} when all is over"))
    })
}

fn few_copies(history: &History, terms: &Terms) -> Vec<Breach> {
    let (Some(most), copies) = (terms.copies, history.copies()) else { return Vec::new() };
    if copies <= most {
        return Vec::new();
    }
    each(history, |lines| {
        let times = lines.iter().filter(|line| line.is_delivery()).count();
        (times > 1).then(|| format!("came {times} times; {copies} copies in all, {most} explained"))
    })
}

fn intact(history: &History, _: &Terms) -> Vec<Breach> {
    deliveries(history, |it| (!it.intact).then(|| "was changed on the way".to_owned()))
}

fn in_its_place(history: &History, _: &Terms) -> Vec<Breach> {
    deliveries(history, |it| (!it.in_its_place).then(|| "came to another place".to_owned()))
}

fn deliveries(history: &History, look: impl Fn(&Delivery) -> Option<String>) -> Vec<Breach> {
    each(history, |lines| {
        lines.iter().find_map(|line| match &line.event {
            Event::Delivered(delivery) => look(delivery),
            _ => None,
        })
    })
}

fn promises_in_order(history: &History, _: &Terms) -> Vec<Breach> {
    each(history, |lines| {
        let (mut secured, mut delivered) = (false, HashSet::new());
        for Line { uid, event, .. } in lines {
            match event {
                Event::Parked { .. } | Event::Dead { .. } | Event::Obeyed => secured = true,
                Event::Delivered(_) => drop(delivered.insert(uid)),
                Event::Acked if !secured => return Some("acked before it was safe".to_owned()),
                Event::Settled if !delivered.contains(uid) => {
                    return Some("settled before it was delivered".to_owned());
                }
                _ => {}
            }
        }
        None
    })
}

fn fenced(history: &History, _: &Terms) -> Vec<Breach> {
    each(history, |lines| {
        has(lines, |event| *event == Event::TouchedByOldToken)
            .then(|| "was concluded by a holder who had lost it".to_owned())
    })
}

fn ends_are_final(history: &History, _: &Terms) -> Vec<Breach> {
    use Event::{Cancelled, Replaced};
    each(history, |lines| {
        let mut ended = HashSet::new();
        for Line { uid, event, .. } in lines {
            match event {
                Cancelled { certain: true } | Replaced { certain: true } => {
                    ended.insert(uid);
                }
                Event::Delivered(_) if ended.contains(uid) => {
                    return Some("was plainly ended, and delivered all the same".to_owned());
                }
                _ => {}
            }
        }
        None
    })
}

fn no_stall(history: &History, terms: &Terms) -> Vec<Breach> {
    each(history, |lines| {
        let (healed, patience) = terms.healed?;
        lines.iter().find_map(|Line { at, event, .. }| match event {
            Event::Delivered(it) if *at > it.due.max(healed) + patience => {
                Some(format!("came {} ms after it could", at - it.due.max(healed)))
            }
            _ => None,
        })
    })
}

fn counts_are_true(history: &History, _: &Terms) -> Vec<Breach> {
    let wrong = history.counts().iter().filter(|count| count.told != count.found);
    let breach = |Count { state, told, found }: &Count| Breach {
        message: "the store".to_owned(),
        what: format!("says it has {told} {state:?}, and has {found}"),
    };
    wrong.map(breach).collect()
}
