//! Whatever a client sends, in whatever pieces: the walk over it neither panics nor depends on
//! where the stream was cut.
//!
//! Usage: `make fuzz TARGET=frames` (cargo install cargo-fuzz)

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &[u8])| {
    let (cut, stream) = input;
    xdelay::proxy::fuzz::walk(stream, usize::from(cut) + 1);
});
