//! Stories of anything.

use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};

use super::story::any_story;
use super::world::tell;
use crate::support::load::effort;

/// As many as take some ten seconds.
const CASES: usize = 300;

#[test]
fn whatever_happens_no_promise_is_broken() {
    let seed = effort("MODEL_SEED", 1) as u64;
    eprintln!("MODEL_SEED={seed}");
    let config = Config {
        cases: effort("MODEL_CASES", CASES) as u32,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: 4_000,
        ..Config::default()
    };
    let told = TestRunner::new(config)
        .run(&any_story(), |story| tell(&story).map(drop).map_err(TestCaseError::fail));
    told.unwrap_or_else(|broken| panic!("{broken}"));
}

#[test]
fn a_story_told_twice_is_the_same() {
    use proptest::strategy::{Strategy, ValueTree};
    let config = Config { rng_seed: RngSeed::Fixed(7), ..Config::default() };
    let mut runner = TestRunner::new(config);
    for _ in 0..20 {
        let story = any_story().new_tree(&mut runner).expect("a story").current();
        let told = || {
            let history = tell(&story).unwrap_or_else(|report| panic!("{report}")).history;
            history.messages().map(|(name, _)| history.tell(name)).collect::<Vec<_>>()
        };
        assert_eq!(told(), told());
    }
}
