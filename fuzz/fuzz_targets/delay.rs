//! Whatever headers hold: a wish is read without a panic, and never one beyond the longest delay.
//!
//! Usage: `make fuzz TARGET=delay` (cargo install cargo-fuzz)

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| xdelay::delay::fuzz::wish(bytes));
