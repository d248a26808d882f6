//! Whatever an operator writes: it is refused in one line for each problem, without a password.
//!
//! Usage: `make fuzz TARGET=config` (cargo install cargo-fuzz)

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| xdelay::config::fuzz::load(bytes));
