//! What the proxy says of a publish that it sends to a capture exchange, and the intake takes off.
//!
//! A stamp makes two things possible that a capture alone cannot: a capture that is delivered
//! again parks only once, because its uid comes with it; and a delay counts from the publish,
//! however long the message waits in the capture queue. It also carries what that queue would act
//! upon: an expiration would run there, and a priority would let a cancel overtake its park.
//!
//! Anybody who may publish to a capture exchange can write a stamp, so it must grant nothing:
//!
//! - **The uid** is not in it. It is made from the stamp's place in time and a digest of the whole
//!   message, so two messages share one only when they are the same message: nobody can make
//!   another's message look as if it were parked already.
//! - **The due** counts only where it is not later than the headers ask for; an earlier one could
//!   have been asked for with `x-deliver-at`.
//! - **Priority and expiration** are the producer's own properties.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::clock::UnixMs;
use crate::message::{AmqpContent, Uid};

/// The header that holds a stamp. Never on a released message.
pub(crate) const STAMP: &str = "x-delay-stamp";
/// The broker takes `BCC` off before anybody can capture it, so it travels under this name.
pub(crate) const BCC_CARRIED: &str = "x-delay-bcc";
/// What it is called before and after.
pub(crate) const BCC: &str = "BCC";

/// The format below.
const VERSION: &str = "1";
/// Bits of a sequence that count within a millisecond.
const COUNT_BITS: u32 = 12;
/// A version 7 UUID begins with a byte below `0x20` up to here, by which stores know it.
const MS_MAX: u64 = 0x1fff_ffff_ffff;
/// The longest expiration RabbitMQ takes: ten years of milliseconds.
const EXPIRATION_MAX: u64 = 315_360_000_000;

/// What is known of one publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Milliseconds and a count within them: grows from one publish of a process to the next.
    sequence: u64,
    /// Tells apart what two processes stamped at once.
    nonce: u64,
    /// When it may be released, where its delay counts from the publish.
    pub(crate) due: Option<UnixMs>,
    /// The property of this name.
    pub(crate) priority: Option<u8>,
    /// The property of this name; always [valid](is_expiration).
    pub(crate) expiration: Option<String>,
}

impl Stamp {
    /// A stamp for a publish at `now`, greater than every one this process has made before.
    pub(crate) fn new(now: UnixMs) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let next = |last: u64| Some((last + 1).max(now.min(MS_MAX) << COUNT_BITS));
        let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        let sequence = next(last.unwrap_or_default()).unwrap_or_default();
        Self { sequence, nonce: fastrand::u64(..), due: None, priority: None, expiration: None }
    }

    /// As the value of [`STAMP`]: text, so that an operator who looks at a capture queue can read it.
    pub(crate) fn encode(&self) -> String {
        let Self { sequence, nonce, .. } = self;
        let or_none = |number: Option<u64>| number.map_or("-".to_owned(), |it| it.to_string());
        let due = or_none(self.due);
        let priority = or_none(self.priority.map(u64::from));
        let expiration = self.expiration.as_deref().unwrap_or("-");
        format!("{VERSION} {sequence:016x} {nonce:016x} {due} {priority} {expiration}")
    }

    /// Reads what [`encode`](Self::encode) wrote; `None` for anything else.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut parts = text.split(' ');
        if parts.next()? != VERSION {
            return None;
        }
        let sequence = hexadecimal(parts.next()?)?;
        let nonce = hexadecimal(parts.next()?)?;
        let due = optional(parts.next()?, |text| text.parse().ok())?;
        let priority = optional(parts.next()?, |text| text.parse().ok())?;
        let expiration = optional(parts.next()?, |text| {
            is_expiration(text.as_bytes()).then(|| text.to_owned())
        })?;
        let whole = parts.next().is_none() && sequence >> COUNT_BITS <= MS_MAX;
        whole.then_some(Self { sequence, nonce, due, priority, expiration })
    }

    /// The uid of the message `content` with this stamp: a version 7 UUID that sorts by time of
    /// publish, and whose rest is a digest of the message.
    pub(crate) fn uid(&self, content: &AmqpContent) -> Uid {
        let mut digest = Sha256::new();
        digest.update(self.sequence.to_be_bytes());
        digest.update(self.nonce.to_be_bytes());
        let AmqpContent { routing_key, properties, body } = content;
        for part in [routing_key, properties, body] {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        let digest = digest.finalize();
        let mut uid = [0; 16];
        let place = (self.sequence >> COUNT_BITS) << 16 | 0x7000 | self.sequence & 0xfff;
        uid[..8].copy_from_slice(&place.to_be_bytes());
        uid[8..].copy_from_slice(&digest[..8]);
        uid[8] = 0x80 | uid[8] & 0x3f;
        Uid::from_bytes(Bytes::copy_from_slice(&uid))
    }
}

/// Whether the broker would take this `expiration`. One that it refuses is left for it to refuse.
pub(crate) fn is_expiration(text: &[u8]) -> bool {
    let digits = !text.is_empty() && text.len() <= 12 && text.iter().all(u8::is_ascii_digit);
    let number = || text.iter().fold(0, |sum: u64, digit| sum * 10 + u64::from(digit & 0xf));
    digits && number() <= EXPIRATION_MAX
}

fn hexadecimal(text: &str) -> Option<u64> {
    (text.len() == 16).then(|| u64::from_str_radix(text, 16).ok())?
}

/// `Some(None)` where there is none.
fn optional<T>(text: &str, read: impl Fn(&str) -> Option<T>) -> Option<Option<T>> {
    if text == "-" { Some(None) } else { read(text).map(Some) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(body: &'static [u8]) -> AmqpContent {
        let routing_key = Bytes::from_static(b"key");
        AmqpContent { routing_key, properties: Bytes::new(), body: Bytes::from_static(body) }
    }

    #[test]
    fn a_stamp_reads_back_and_nothing_else_does() {
        let mut stamp = Stamp::new(1_700_000_000_000);
        assert_eq!(Stamp::decode(stamp.encode().as_bytes()), Some(stamp.clone()));
        stamp.due = Some(1_700_000_005_000);
        stamp.priority = Some(9);
        stamp.expiration = Some("60000".into());
        let text = stamp.encode();
        assert_eq!(Stamp::decode(text.as_bytes()), Some(stamp));
        assert!(text.ends_with(" 1700000005000 9 60000"), "{text}");
        for wrong in [
            "",
            "1",
            "2 0000000000000000 0000000000000000 - - -",
            "1 0000000000000000 0000000000000000 - -",
            "1 0000000000000000 0000000000000000 - - - ",
            "1 +000000000000000 0000000000000000 - - 5s",
            "1 0000000000000000 0000000000000000 - 256 -",
            "1 0000000000000000 0000000000000000 -1 - -",
            "1 ffffffffffffffff 0000000000000000 - - -",
        ] {
            assert_eq!(Stamp::decode(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(Stamp::decode(&[0xff]), None);
    }

    #[test]
    fn uids_grow_with_every_stamp_and_look_like_any_other() {
        let stamps: Vec<_> = (0..10_000).map(|n| Stamp::new(1_700_000_000_000 + n / 900)).collect();
        let uids: Vec<_> = stamps.iter().map(|stamp| stamp.uid(&content(b"same"))).collect();
        assert!(uids.is_sorted_by(|one, next| one < next));
        let text = uids[0].to_string();
        assert_eq!((text.len(), &text[12..13]), (32, "7"));
        assert_eq!(Uid::parse(&text).as_ref(), Some(&uids[0]));
    }

    #[test]
    fn a_copied_stamp_names_another_message_otherwise() {
        let stamp = Stamp::new(1_700_000_000_000);
        let copied = Stamp::decode(stamp.encode().as_bytes()).expect("read");
        assert_eq!(stamp.uid(&content(b"mine")), copied.uid(&content(b"mine")));
        assert_ne!(stamp.uid(&content(b"mine")), copied.uid(&content(b"theirs")));
        let moved = AmqpContent { routing_key: Bytes::from_static(b"keym"), ..content(b"ine") };
        assert_ne!(stamp.uid(&content(b"mine")), stamp.uid(&moved), "parts keep their bounds");
    }

    #[test]
    fn an_expiration_is_what_rabbitmq_takes() {
        for taken in ["0", "60000", "315360000000"] {
            assert!(is_expiration(taken.as_bytes()), "{taken}");
        }
        for refused in ["", "-1", "5s", " 5", "315360000001", "99999999999999999999999"] {
            assert!(!is_expiration(refused.as_bytes()), "{refused}");
        }
    }
}
