//! Every scene with every mishap at every call.

use super::scene::{SCENES, Scene, story};
use super::story::Fate;
use super::world::{Told, tell};
use crate::support::invariants::is_over;
use crate::support::load::effort;

/// How many calls the scene makes when nothing goes wrong; then it ends as it says.
fn calls_of(scene: &Scene) -> usize {
    let told = tell(&story(scene.steps, &[]));
    let Told { history, calls } = told.unwrap_or_else(|report| panic!("{}\n{report}", scene.name));
    let ends = history.messages().filter_map(|(name, lines)| {
        let mut ends = lines.iter().filter(|line| is_over(std::slice::from_ref(line)));
        Some(format!("{name} {}", ends.next_back()?.event.to_string().split([':', ',']).next()?))
    });
    assert_eq!(ends.collect::<Vec<_>>(), scene.ends, "{}", scene.name);
    calls
}

#[test]
fn every_mishap_at_every_call_breaks_no_promise() {
    let mut stories = 0;
    for scene in SCENES {
        for call in 0..calls_of(scene) {
            for fate in Fate::MISHAPS {
                let told = tell(&story(scene.steps, &[(call, fate)]));
                let told = told.unwrap_or_else(|report| panic!("{}\n{report}", scene.name));
                assert!(told.calls > call, "{}: call {call} was never made", scene.name);
                stories += 1;
            }
        }
    }
    eprintln!("{stories} stories");
}

/// `MODEL_PAIRS=1` tells all of them: every mishap at every call after another has met its own.
#[test]
fn two_mishaps_break_no_promise_either() {
    let every = if effort("MODEL_PAIRS", 0) > 0 { 1 } else { 151 };
    let mut number = 0;
    for scene in SCENES {
        let calls = calls_of(scene);
        let places = (0..calls).flat_map(|first| (first + 1..calls + 4).map(move |it| (first, it)));
        for (first, second) in places {
            for fates in Fate::MISHAPS.iter().flat_map(|a| Fate::MISHAPS.map(|b| (*a, b))) {
                number += 1;
                if number % every == 0 {
                    let told = tell(&story(scene.steps, &[(first, fates.0), (second, fates.1)]));
                    let _ = told.unwrap_or_else(|report| panic!("{}\n{report}", scene.name));
                }
            }
        }
    }
    eprintln!("{} stories", number / every);
}
