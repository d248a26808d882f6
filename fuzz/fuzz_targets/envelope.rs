//! Whatever lies in a store: it is refused, or is written again as it was read.
//!
//! Usage: `make fuzz TARGET=envelope` (cargo install cargo-fuzz)

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| xdelay::store::fuzz::envelope(bytes));
