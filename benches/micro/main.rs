//! What single steps cost, to see what a change did to one of them: `dev/bench micro`, or
//! `dev/bench micro envelope` for some. Criterion compares with the last run by itself.
//!
//! What a message costs as a whole is another question; see `benches/delay`.

#![allow(clippy::expect_used, reason = "a benchmark that cannot go on has to stop")]

mod delay;
mod envelope;
mod frames;
mod scripts;

use criterion::Criterion;

fn main() {
    // Cargo says `--bench` when it benchmarks, and does not when it tests.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let mut criterion = Criterion::default().configure_from_args();
    delay::bench(&mut criterion);
    envelope::bench(&mut criterion);
    frames::bench(&mut criterion);
    scripts::bench(&mut criterion);
    criterion.final_summary();
}
