//! The walk over what a client sends, open to `fuzz/` and to `benches/micro`.

use std::sync::Arc;

use bytes::BytesMut;

use super::access::LoginRules;
use super::destinations::{Fate, PREFIX};
use super::requests::{Requests, Rules, Stop};
use crate::clock::UnixMs;

/// Everything is delayed for, and the clock stands still.
struct All;

impl Rules for All {
    fn includes(&self, exchange: &[u8]) -> bool {
        !exchange.starts_with(PREFIX.as_bytes())
    }

    fn fate(&self, exchange: &[u8], _: &[u8]) -> Option<Fate> {
        Some(if exchange == b"bad" { Fate::Refuse("bad".to_owned()) } else { Fate::Capture })
    }

    fn now(&self) -> UnixMs {
        1_700_000_000_000
    }

    fn latest(&self) -> UnixMs {
        self.now()
    }

    fn max_ms(&self) -> u64 {
        UnixMs::MAX / 4
    }

    fn must_note(&self, _: &[u8], _: &[u8]) -> bool {
        false
    }

    fn may_be_declared(&self, _: &[u8], _: &[u8]) -> bool {
        false
    }

    fn forget(&self, _: &[u8]) {}
}

/// Walks over a stream at once and in pieces; both must come to the same length.
///
/// # Panics
/// When they do not: that is what is looked for.
pub fn walk(stream: &[u8], piece: usize) {
    let whole = sent(stream, stream.len().max(1));
    let pieces = sent(stream, piece.max(1));
    // Stamps differ, but not in length.
    assert_eq!(whole, pieces, "it depends on where the stream is cut");
}

/// Walks over a stream in pieces, as they come from a socket; answers how many bytes go out.
pub fn pass(stream: &[u8], piece: usize) -> usize {
    sent(stream, piece.max(1)).0
}

/// How many bytes go out, and whether it ended in a violation.
fn sent(stream: &[u8], piece: usize) -> (usize, bool) {
    let mut requests = Requests::new(Arc::new(All), LoginRules::default());
    requests.open();
    let (mut rest, mut sent) = (Vec::new(), 0);
    for bytes in stream.chunks(piece) {
        rest.extend_from_slice(bytes);
        let mut out = BytesMut::new();
        match requests.pass(&rest, &mut out) {
            Err(_) => return (0, true),
            Ok((passed, stop)) => {
                assert_eq!(stop, Stop::More, "nothing has to be asked");
                sent += if passed.verbatim { passed.consumed } else { out.len() };
                rest.drain(..passed.consumed);
            }
        }
    }
    (sent, false)
}
