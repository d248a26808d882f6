//! Each invariant can be broken, is then named, and by nothing else.

use super::Event::*;
use super::*;

/// A message whose life went well: published at 0, due at 100.
const WELL: [Event; 8] = [
    Published { not_before: 100 },
    Confirmed,
    Captured,
    Parked { due: 100 },
    Acked,
    Leased,
    Delivered(Delivery { due: 100, intact: true, in_its_place: true }),
    Settled,
];

const TERMS: Terms = Terms { copies: Some(0), healed: Some((0, 50)), may_lose: false };

/// One event a line, all of one uid; everything from the delivery on happens at 100.
fn history(events: impl IntoIterator<Item = Event>) -> History {
    let mut history = History::default();
    let mut at = 0;
    for event in events {
        if matches!(event, Delivered(_)) {
            at = 100;
        }
        history.note_of("m", Some("u"), at, event);
    }
    history
}

fn without(event: &Event) -> Vec<Event> {
    WELL.into_iter().filter(|it| it != event).collect()
}

fn with(event: Event) -> Vec<Event> {
    WELL.into_iter().chain([event]).collect()
}

#[track_caller]
fn broken(history: &History) -> Vec<&'static str> {
    let report = check(history, &TERMS).err().unwrap_or_default();
    let named = INVARIANTS.iter().filter(|it| report.contains(it.sentence));
    named.map(|it| it.sentence).collect()
}

#[test]
fn a_life_that_went_well_breaks_nothing() {
    assert_eq!(check(&history(WELL), &TERMS), Ok(()));
}

#[test]
fn each_invariant_is_broken_by_what_breaks_it_and_by_that_alone() {
    let delivered = |it: Delivery| {
        let other =
            WELL.map(|event| if matches!(event, Delivered(_)) { Delivered(it) } else { event });
        history(other)
    };
    let mut late = history(WELL[..6].iter().cloned());
    late.note_of("m", Some("u"), 151, Delivered(Delivery::due(100)));
    let mut nowhere = history(WELL);
    nowhere.note("m", 5, Nowhere);
    let mut miscounted = history(WELL);
    miscounted.count(Count { state: State::Dead, told: 1, found: 0 });
    let left = |state| Left { state, whole: true };
    let cases = [
        history([Published { not_before: 1 }, Confirmed]),
        nowhere,
        history(without(&Published { not_before: 100 })),
        history([with(left(State::Dead)), vec![left(State::Dead)]].concat()),
        delivered(Delivery::due(101)),
        history(with(left(State::Leased))),
        history(with(Delivered(Delivery::due(100)))),
        delivered(Delivery { intact: false, ..Delivery::due(100) }),
        delivered(Delivery { in_its_place: false, ..Delivery::due(100) }),
        history(without(&Parked { due: 100 })),
        history(with(TouchedByOldToken)),
        history([&WELL[..6], &[Cancelled { certain: true }], &WELL[6..]].concat()),
        late,
        miscounted,
    ];
    assert_eq!(cases.len(), INVARIANTS.len());
    for (case, invariant) in cases.iter().zip(INVARIANTS) {
        assert_eq!(broken(case), [invariant.sentence]);
    }
}

#[test]
fn what_else_breaks_them() {
    let cases = [
        (history(with(Left { state: State::Dead, whole: false })), 3),
        (history([&WELL[..6], &[Replaced { certain: true }], &WELL[6..]].concat()), 10),
        (delivered_too_soon(), 4),
        (history(without(&WELL[6])), 9),
    ];
    for (case, number) in cases {
        let report = check(&case, &TERMS).expect_err("it is broken");
        assert!(report.contains(&format!("invariant {number} is broken")), "{report}");
    }
}

fn delivered_too_soon() -> History {
    history(WELL.map(|event| match event {
        Delivered(_) => Delivered(Delivery::due(99)),
        other => other,
    }))
}

#[test]
fn what_may_happen_breaks_nothing() {
    let possibly = with(Cancelled { certain: false });
    let ends = [
        vec![Cancelled { certain: true }],
        vec![Replaced { certain: true }],
        vec![Dead { reason: "unroutable".into() }, Left { state: State::Dead, whole: true }],
    ];
    let early = Rescheduled { due: 50 };
    let [published, confirmed, captured, parked, acked, leased, _, settled] = WELL;
    let at_once = Delivered(Delivery::due(50));
    let moved = [published, confirmed, captured, parked, acked, early, leased, at_once, settled];
    for ok in
        [possibly, moved.to_vec()].into_iter().chain(ends.map(|end| [&WELL[..5], &end].concat()))
    {
        assert_eq!(check(&history(ok), &TERMS), Ok(()));
    }
    let twice = with(Delivered(Delivery::due(100)));
    assert_eq!(check(&history(twice), &Terms::FAULTS), Ok(()));
}

#[test]
fn a_report_names_the_message_and_tells_its_story() {
    let mut history = history(WELL);
    history.note("order-7", 1_000, Published { not_before: 2_000 });
    history.note("order-7", 1_010, Confirmed);
    let report = check(&history, &TERMS).expect_err("it is lost");
    for part in ["invariant 1 is broken 1 times", "order-7: lost", "1010 ms  confirmed"] {
        assert!(report.contains(part), "{report}");
    }
}

#[test]
fn what_is_missing_is_counted_whatever_comes_first() {
    let mut history = History::default();
    for name in ["a", "b", "c"] {
        history.note(name, 0, Confirmed);
    }
    history.note("a", 1, Delivered(Delivery::due(0)));
    history.note("d", 1, Delivered(Delivery::due(0)));
    history.note("d", 2, Confirmed);
    assert_eq!((history.confirmed(), history.missing(), history.copies()), (4, 2, 0));
}
