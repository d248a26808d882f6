//! What `make fuzz` begins with, and whatever it once found, is fed to the same code by every test run:
//! that needs no nightly compiler.

use std::path::Path;

/// Feeds all seeds of a target; answers how many.
fn feed(target: &str, eat: impl Fn(&[u8])) -> usize {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
    let seeds = std::fs::read_dir(directory).expect("seeds");
    seeds
        .map(|seed| {
            let path = seed.expect("a seed").path();
            eprintln!("{}", path.display());
            eat(&std::fs::read(&path).expect("a seed"));
        })
        .count()
}

#[test]
fn seeds_of_frames_are_walked_over() {
    let walk = |seed: &[u8]| {
        let (cut, stream) = seed.split_first().expect("not empty");
        xdelay::proxy::fuzz::walk(stream, usize::from(*cut) + 1);
    };
    assert!(feed("frames", walk) >= 5);
}

#[test]
fn seeds_of_delays_are_read() {
    assert!(feed("delay", xdelay::delay::fuzz::wish) >= 9);
}

#[test]
fn seeds_of_envelopes_are_read() {
    assert!(feed("envelope", xdelay::store::fuzz::envelope) >= 7);
}

#[test]
fn seeds_of_configs_are_read() {
    assert!(feed("config", xdelay::config::fuzz::load) >= 6);
}
