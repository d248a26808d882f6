//! Frames as they stand on the wire: cut out of the byte stream, their payload left undecoded.

use amq_protocol::frame::parsing::{parse_frame_type, parse_raw_frame};
use amq_protocol::frame::{AMQPFrame, AMQPFrameType, WriteContext, gen_frame};
use amq_protocol::protocol::{AMQPClass, parse_class};
use bytes::{Bytes, BytesMut};

use super::RawError;

/// Type, channel and payload length before the payload.
const LEAD: usize = 7;
/// The lead and the end mark: what a frame weighs besides its payload.
const OVERHEAD: usize = LEAD + 1;

/// One frame; the payload is not decoded, only its extent is known.
#[derive(Debug)]
pub(in super::super) struct RawFrame {
    pub(in super::super) kind: AMQPFrameType,
    pub(in super::super) channel: u16,
    pub(in super::super) payload: Bytes,
}

impl RawFrame {
    /// Class and method number, for a method frame.
    pub(in super::super) fn method_id(&self) -> Option<(u16, u16)> {
        match (&self.kind, &self.payload[..]) {
            (AMQPFrameType::Method, [a, b, c, d, ..]) => {
                Some((u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])))
            }
            _ => None,
        }
    }

    pub(in super::super) fn method(&self) -> Result<AMQPClass, RawError> {
        match parse_class(&self.payload[..]) {
            Ok(([], method)) => Ok(method),
            _ => Err(RawError::protocol(format!(
                "a method {:?} that cannot be decoded",
                self.method_id()
            ))),
        }
    }
}

/// Collects bytes as they come and gives out whole frames.
pub(in super::super) struct FrameReader {
    buffer: BytesMut,
    frame_max: usize,
}

impl FrameReader {
    pub(in super::super) fn new(frame_max: u32) -> Self {
        Self { buffer: BytesMut::new(), frame_max: frame_max as usize }
    }

    pub(super) fn set_frame_max(&mut self, frame_max: u32) {
        self.frame_max = frame_max as usize;
    }

    pub(super) fn frame_max(&self) -> usize {
        self.frame_max
    }

    pub(in super::super) fn extend(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame, or `None` when more bytes are needed.
    pub(in super::super) fn next(&mut self) -> Result<Option<RawFrame>, RawError> {
        // Looked at before the frame is whole: the length decides how much would be buffered.
        if let [_, _, _, a, b, c, d, ..] = self.buffer[..] {
            let length = u32::from_be_bytes([a, b, c, d]) as usize;
            if length.saturating_add(OVERHEAD) > self.frame_max {
                return Err(RawError::protocol(format!("a frame of {length} bytes")));
            }
        }
        let parsed = parse_frame_type(&self.buffer[..]).and_then(|(rest, kind)| match kind {
            // What a server sends that wants another version of the protocol.
            AMQPFrameType::ProtocolHeader => Ok(None),
            kind => parse_raw_frame(kind)(rest).map(|(_, raw)| Some(raw)),
        });
        let (kind, channel, length) = match parsed {
            Ok(Some(raw)) => (raw.frame_type, raw.channel_id, raw.payload.len()),
            Ok(None) => return Err(RawError::protocol("another version of AMQP")),
            Err(e) if e.is_incomplete() => return Ok(None),
            Err(_) => return Err(RawError::protocol("bytes that are no frame")),
        };
        let frame = self.buffer.split_to(length + OVERHEAD).freeze();
        Ok(Some(RawFrame { kind, channel, payload: frame.slice(LEAD..LEAD + length) }))
    }
}

/// The frame's bytes as they go out.
pub(in super::super) fn encode(frame: &AMQPFrame) -> Result<Vec<u8>, RawError> {
    gen_frame(frame)(WriteContext::from(Vec::new()))
        .map(|context| context.into_inner().0)
        .map_err(|e| RawError::protocol(format!("{frame}: {e}")))
}
