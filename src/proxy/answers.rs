//! What the broker sends, on its way to a client: it passes as it is, but for channels that were
//! closed here, of which the client hears nothing more until it opens them anew.

use std::collections::HashSet;

use bytes::BytesMut;

use super::frames::{Lead, METHOD, MethodId, Pass, Passed, Step, Violation};
use super::methods;

/// The walk over what the broker sends to one client.
#[derive(Default)]
pub(super) struct Answers {
    is_open: bool,
    /// The broker wants another protocol, and says so in bytes that are no frame.
    is_foreign: bool,
    step: Step,
    /// Channels that were closed here, until the broker has closed them too.
    closing: HashSet<u16>,
    /// Goes to the client between two frames.
    inserted: BytesMut,
    /// Channels whose close by the broker has to be answered.
    unanswered: Vec<u16>,
}

impl Answers {
    /// The broker has said that the connection is open.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Closes a channel towards the client, at the next end of a frame.
    pub(super) fn close_channel(&mut self, channel: u16, blamed: MethodId, why: &str) {
        self.closing.insert(channel);
        methods::write_channel_close(&mut self.inserted, channel, blamed, why);
    }

    /// Tells the client that a channel is closed, as it wished.
    pub(super) fn confirm_close(&mut self, channel: u16) {
        methods::write_channel_close_ok(&mut self.inserted, channel);
    }

    /// Whether something waits to be sent.
    pub(super) fn has_inserted(&self) -> bool {
        !self.inserted.is_empty()
    }

    /// Whether all that was sent so far ends with a frame.
    pub(super) fn is_between_frames(&self) -> bool {
        self.step.is_done() && !self.is_foreign
    }

    /// Channels that the broker closed and that the client need not hear of.
    pub(super) fn unanswered(&mut self) -> Vec<u16> {
        std::mem::take(&mut self.unanswered)
    }

    /// Walks over what has come in.
    ///
    /// # Errors
    /// When it is not AMQP.
    pub(super) fn pass(&mut self, input: &[u8], out: &mut BytesMut) -> Result<Passed, Violation> {
        let mut pass = Pass::new(input, out);
        if !self.is_open && self.step.is_done() && input.first() == Some(&b'A') {
            self.is_foreign = true;
        }
        if self.is_foreign {
            pass.keep(input.len());
            return Ok(pass.end());
        }
        loop {
            self.step.walk(&mut pass)?;
            if !self.step.is_done() {
                break;
            }
            if !self.inserted.is_empty() {
                pass.insert().extend_from_slice(&self.inserted.split());
            }
            let Some(lead) = Lead::read(pass.rest())? else { break };
            let matters = !self.is_open || self.closing.contains(&lead.channel);
            let mut keeps = !matters || !self.is_open;
            if matters && lead.kind == METHOD {
                let Some(method) = methods::begun(pass.rest()) else { break };
                match method {
                    methods::CONNECTION_OPEN_OK if !self.is_open => self.is_open = true,
                    methods::CHANNEL_CLOSE_OK => {
                        keeps = !self.closing.remove(&lead.channel);
                    }
                    methods::CHANNEL_CLOSE => self.unanswered.push(lead.channel),
                    _ => {}
                }
            }
            self.step = Step::over(lead.whole(), keeps);
        }
        Ok(pass.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::frames;

    fn method(channel: u16, (class, method): (u16, u16)) -> Vec<u8> {
        let mut out = BytesMut::new();
        let parts: [&[u8]; 2] = [&class.to_be_bytes(), &method.to_be_bytes()];
        frames::write(&mut out, METHOD, channel, &parts);
        out.to_vec()
    }

    /// What comes out when it comes in byte by byte.
    fn bytewise(answers: &mut Answers, input: &[u8]) -> Vec<u8> {
        let (mut rest, mut sent) = (Vec::new(), Vec::new());
        for byte in input {
            rest.push(*byte);
            let mut out = BytesMut::new();
            let passed = answers.pass(&rest, &mut out).unwrap();
            let came = rest.drain(..passed.consumed).collect::<Vec<_>>();
            sent.extend(if passed.verbatim { came } else { out.to_vec() });
        }
        sent
    }

    #[test]
    fn all_passes_and_the_opening_is_noticed() {
        let mut answers = Answers::default();
        let start = method(0, (10, 10));
        assert_eq!(bytewise(&mut answers, &start), start);
        assert!(!answers.is_open());
        let open_ok = method(0, methods::CONNECTION_OPEN_OK);
        assert_eq!(bytewise(&mut answers, &open_ok), open_ok);
        assert!(answers.is_open());
    }

    #[test]
    fn a_closed_channel_is_silent_until_the_broker_has_closed_it() {
        let mut answers = Answers::default();
        bytewise(&mut answers, &method(0, methods::CONNECTION_OPEN_OK));
        answers.close_channel(3, methods::BASIC_PUBLISH, "because");
        let deliver = [method(3, (60, 60)), method(4, (60, 60))].concat();
        let mut closed = BytesMut::new();
        methods::write_channel_close(&mut closed, 3, methods::BASIC_PUBLISH, "because");
        let expected = [closed.to_vec(), method(4, (60, 60))].concat();
        assert_eq!(bytewise(&mut answers, &deliver), expected);
        // The broker's own close is answered for the client.
        assert_eq!(bytewise(&mut answers, &method(3, methods::CHANNEL_CLOSE)), b"");
        assert_eq!(answers.unanswered(), [3]);
        assert_eq!(bytewise(&mut answers, &method(3, methods::CHANNEL_CLOSE_OK)), b"");
        let opened = method(3, (20, 11));
        assert_eq!(bytewise(&mut answers, &opened), opened, "it was opened anew");
    }

    #[test]
    fn another_protocol_passes_and_bytes_that_are_none_do_not() {
        let mut answers = Answers::default();
        assert_eq!(bytewise(&mut answers, b"AMQP\0\0\x09\x01"), b"AMQP\0\0\x09\x01");
        let mut answers = Answers::default();
        assert!(answers.pass(b"HTTP/1.1 400 Bad", &mut BytesMut::new()).is_err());
    }
}
