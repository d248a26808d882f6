//! Frames as they lie in a stream of bytes: found without being decoded, and passed on uncopied.
//!
//! A frame is a type, a channel and a length, then so many bytes, then an end mark. Whoever walks
//! a stream looks at the few frames it cares about and steps over the rest, in pieces as they come.
//! What is not changed goes out from where it came in; only a walk that changes something copies.

use bytes::BytesMut;

/// Carries a method.
pub(super) const METHOD: u8 = 1;
/// Carries a content header: the properties of a message.
pub(super) const HEADER: u8 = 2;
/// Carries a piece of a message's body.
const BODY: u8 = 3;
/// Says that its sender is alive.
const HEARTBEAT: u8 = 8;
/// The last byte of every frame.
pub(super) const END: u8 = 0xce;
/// Type, channel and length, before the payload.
pub(super) const LEAD: usize = 7;
/// A whole heartbeat.
pub(super) const BEAT: [u8; 8] = [HEARTBEAT, 0, 0, 0, 0, 0, 0, END];

/// What a stream may not hold: it ends its connection, with these words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Violation(pub Kind, pub &'static str);

/// What is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It is not made of frames: nothing that comes after can be understood.
    Frame,
    /// It logs in as somebody may not here.
    Login,
}

/// The beginning of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lead {
    pub(super) kind: u8,
    pub(super) channel: u16,
    /// Bytes of payload.
    pub(super) length: usize,
}

impl Lead {
    /// Reads one, once there are enough bytes.
    pub(super) fn read(bytes: &[u8]) -> Result<Option<Self>, Violation> {
        let &[kind, c, d, e, f, g, h, ..] = bytes else { return Ok(None) };
        if !matches!(kind, METHOD | HEADER | BODY | HEARTBEAT) {
            return Err(Violation(Kind::Frame, "bytes that are no frame"));
        }
        let length = u32::from_be_bytes([e, f, g, h]) as usize;
        Ok(Some(Self { kind, channel: u16::from_be_bytes([c, d]), length }))
    }

    /// Bytes of the whole frame.
    pub(super) fn whole(self) -> usize {
        LEAD + self.length + 1
    }

    /// The payload, once all of the frame is in `bytes`.
    pub(super) fn payload(self, bytes: &[u8]) -> Result<Option<&[u8]>, Violation> {
        match bytes.get(LEAD..self.whole()) {
            None => Ok(None),
            Some([payload @ .., END]) => Ok(Some(payload)),
            Some(_) => Err(Violation(Kind::Frame, "a frame without its end")),
        }
    }
}

/// Class and method at the beginning of a method's payload.
pub(super) type MethodId = (u16, u16);

/// Which method a payload holds; `None` for fewer than four bytes.
pub(super) fn method_id(payload: &[u8]) -> Option<MethodId> {
    let &[a, b, c, d, ..] = payload else { return None };
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

/// Appends a frame.
pub(super) fn write(to: &mut BytesMut, kind: u8, channel: u16, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    to.extend_from_slice(&[kind]);
    to.extend_from_slice(&channel.to_be_bytes());
    to.extend_from_slice(&(length as u32).to_be_bytes());
    for part in parts {
        to.extend_from_slice(part);
    }
    to.extend_from_slice(&[END]);
}

/// One pass over what has come in: what of it goes out, and in its place.
pub(super) struct Pass<'a> {
    input: &'a [u8],
    out: &'a mut BytesMut,
    /// All before this has been dealt with.
    at: usize,
    /// What lies between here and `at` goes out as it is, and was not copied yet.
    uncopied: usize,
    changed: bool,
}

/// What a pass has left to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Passed {
    /// Bytes of input that were dealt with.
    pub(super) consumed: usize,
    /// They go out as they are; otherwise what goes out in their place was put into `out`.
    pub(super) verbatim: bool,
}

impl<'a> Pass<'a> {
    /// Begins one. `out` is empty.
    pub(super) fn new(input: &'a [u8], out: &'a mut BytesMut) -> Self {
        Self { input, out, at: 0, uncopied: 0, changed: false }
    }

    /// What has not been dealt with.
    pub(super) fn rest(&self) -> &'a [u8] {
        &self.input[self.at..]
    }

    /// Lets bytes out as they are.
    pub(super) fn keep(&mut self, bytes: usize) {
        self.at += bytes;
    }

    /// Takes bytes out.
    pub(super) fn drop(&mut self, bytes: usize) {
        self.copy();
        self.at += bytes;
        self.uncopied = self.at;
    }

    /// Where to write what comes next.
    pub(super) fn insert(&mut self) -> &mut BytesMut {
        self.copy();
        self.out
    }

    /// Ends the pass.
    pub(super) fn end(mut self) -> Passed {
        if self.changed {
            self.copy();
        }
        Passed { consumed: self.at, verbatim: !self.changed }
    }

    fn copy(&mut self) {
        self.changed = true;
        self.out.extend_from_slice(&self.input[self.uncopied..self.at]);
        self.uncopied = self.at;
    }
}

/// Steps over a frame in pieces, as they come.
#[derive(Debug, Default)]
pub(super) struct Step {
    left: usize,
    keeps: bool,
}

impl Step {
    /// A frame of so many bytes, which is kept or dropped.
    pub(super) fn over(bytes: usize, keeps: bool) -> Self {
        Self { left: bytes, keeps }
    }

    /// Nothing of a frame is left to step over.
    pub(super) fn is_done(&self) -> bool {
        self.left == 0
    }

    /// Goes as far as there are bytes.
    pub(super) fn walk(&mut self, pass: &mut Pass<'_>) -> Result<(), Violation> {
        let here = self.left.min(pass.rest().len());
        if here == 0 {
            return Ok(());
        }
        self.left -= here;
        if self.left == 0 && pass.rest()[here - 1] != END {
            return Err(Violation(Kind::Frame, "a frame without its end"));
        }
        if self.keeps {
            pass.keep(here);
        } else {
            pass.drop(here);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_once_it_is_whole() {
        let mut bytes = BytesMut::new();
        write(&mut bytes, METHOD, 7, &[b"ab", b"c"]);
        for cut in 0..LEAD {
            assert_eq!(Lead::read(&bytes[..cut]), Ok(None));
        }
        let lead = Lead::read(&bytes).unwrap().unwrap();
        assert_eq!(lead, Lead { kind: METHOD, channel: 7, length: 3 });
        assert_eq!(lead.payload(&bytes[..10]), Ok(None));
        assert_eq!(lead.payload(&bytes), Ok(Some(&b"abc"[..])));
        bytes[10] = 0;
        assert!(lead.payload(&bytes).is_err());
        assert!(Lead::read(b"HTTP/1.1").is_err());
    }

    #[test]
    fn only_a_pass_that_changes_something_copies() {
        let mut out = BytesMut::new();
        let mut pass = Pass::new(b"abcdef", &mut out);
        pass.keep(4);
        assert_eq!(pass.end(), Passed { consumed: 4, verbatim: true });
        assert!(out.is_empty());
        let mut pass = Pass::new(b"abcdef", &mut out);
        pass.keep(1);
        pass.drop(2);
        pass.insert().extend_from_slice(b"XY");
        pass.keep(2);
        assert_eq!(pass.end(), Passed { consumed: 5, verbatim: false });
        assert_eq!(&out[..], b"aXYde");
    }
}
