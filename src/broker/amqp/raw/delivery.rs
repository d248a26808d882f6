//! Deliveries put together from frames without decoding them, and why lapin would refuse one.

use amq_protocol::frame::AMQPFrameType;
use amq_protocol::protocol::basic::parse_properties;
use amq_protocol::types::parsing::{
    parse_field_table, parse_long_long_uint, parse_short_short_uint, parse_short_string,
    parse_short_uint,
};
use bytes::{Buf, Bytes};

use super::RawError;
use super::frames::RawFrame;
use super::nesting::{DEPTH_MAX, too_deep};

/// RabbitMQ itself takes no message above this, whatever its configuration says.
const BODY_MAX: u64 = 512 * 1024 * 1024;

/// A message as it was delivered, each part byte for byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct RawDelivery {
    pub(in super::super) tag: u64,
    pub(in super::super) redelivered: bool,
    pub(in super::super) exchange: Vec<u8>,
    pub(in super::super) routing_key: Vec<u8>,
    /// The content header's property flags and property list.
    pub(in super::super) properties: Vec<u8>,
    pub(in super::super) body: Vec<u8>,
}

impl RawDelivery {
    /// Why lapin could not decode it, or `None` when it could.
    ///
    /// The verdict is that of the very parser lapin uses, not of a rule of our own: what is taken
    /// out of the queue here must be just what lapin cannot take. Only headers nested so deeply that
    /// the parser could overflow the stack are condemned unparsed.
    pub(in super::super) fn undecodable(&self) -> Option<String> {
        for (part, bytes) in [("exchange name", &self.exchange), ("routing key", &self.routing_key)]
        {
            if let Err(e) = std::str::from_utf8(bytes) {
                return Some(format!("{part}: {e}"));
            }
        }
        if header_table(&self.properties).is_some_and(too_deep) {
            return Some(format!("headers: nested deeper than {DEPTH_MAX} levels"));
        }
        match parse_properties(&self.properties[..]) {
            Ok(([], _)) => None,
            Ok((rest, _)) => Some(format!("properties: {} bytes too many", rest.len())),
            Err(_) => Some(blame(&self.properties)),
        }
    }
}

/// How a property is encoded.
enum Shape {
    Short,
    Table,
    Byte,
    Number,
}

/// The properties in the order of their flags, the highest bit first.
const PROPERTIES: [(&str, Shape); 14] = [
    ("content_type", Shape::Short),
    ("content_encoding", Shape::Short),
    ("headers", Shape::Table),
    ("delivery_mode", Shape::Byte),
    ("priority", Shape::Byte),
    ("correlation_id", Shape::Short),
    ("reply_to", Shape::Short),
    ("expiration", Shape::Short),
    ("message_id", Shape::Short),
    ("timestamp", Shape::Number),
    ("type", Shape::Short),
    ("user_id", Shape::Short),
    ("app_id", Shape::Short),
    ("cluster_id", Shape::Short),
];

/// Where the header table begins, if there is one and all before it can be read.
fn header_table(properties: &[u8]) -> Option<&[u8]> {
    let (mut rest, flags) = parse_short_uint(properties).ok()?;
    for (bit, (_, shape)) in PROPERTIES.iter().enumerate() {
        match shape {
            _ if flags & (0x8000 >> bit) == 0 => {}
            Shape::Short => rest = parse_short_string(rest).ok()?.0,
            Shape::Table => return Some(rest),
            _ => return None,
        }
    }
    None
}

/// Names the property that the parser stumbled over, for a person to read: the parser's own error
/// does not say.
fn blame(properties: &[u8]) -> String {
    let Ok((mut rest, flags)) = parse_short_uint(properties) else {
        return "properties: cut short".to_owned();
    };
    for (bit, (name, shape)) in PROPERTIES.iter().enumerate() {
        if flags & (0x8000 >> bit) == 0 {
            continue;
        }
        let parsed = match shape {
            Shape::Short => parse_short_string(rest).map(|(rest, _)| rest),
            Shape::Table => parse_field_table(rest).map(|(rest, _)| rest),
            Shape::Byte => parse_short_short_uint(rest).map(|(rest, _)| rest),
            Shape::Number => parse_long_long_uint(rest).map(|(rest, _)| rest),
        };
        match (parsed, shape) {
            (Ok(next), _) => rest = next,
            (Err(e), _) if e.is_incomplete() => return format!("{name}: cut short"),
            (Err(_), Shape::Table) => {
                return format!("{name}: a name that is not UTF-8, or a value of no known type");
            }
            (Err(_), _) => return format!("{name}: not UTF-8"),
        }
    }
    "properties: cannot be decoded".to_owned()
}

/// How far the next delivery has come.
#[derive(Default)]
pub(super) enum Assembly {
    #[default]
    Idle,
    /// basic.deliver is there, the content header is not.
    Announced(RawDelivery),
    /// So many bytes of the body are still to come.
    Body(RawDelivery, usize),
}

impl Assembly {
    pub(super) fn is_idle(&self) -> bool {
        matches!(self, Self::Idle)
    }

    /// Takes in the next frame of the channel's content; gives the delivery it completes.
    pub(super) fn feed(&mut self, frame: &RawFrame) -> Result<Option<RawDelivery>, RawError> {
        let (delivery, missing) = match (std::mem::take(self), &frame.kind) {
            (Self::Idle, AMQPFrameType::Method) => {
                *self = Self::Announced(announced(frame.payload.clone())?);
                return Ok(None);
            }
            (Self::Announced(delivery), AMQPFrameType::Header) => {
                header(delivery, frame.payload.clone())?
            }
            (Self::Body(mut delivery, missing), AMQPFrameType::Body) => {
                let left = missing.checked_sub(frame.payload.len());
                let left =
                    left.ok_or_else(|| RawError::protocol("a body longer than announced"))?;
                delivery.body.extend_from_slice(&frame.payload);
                (delivery, left)
            }
            (_, kind) => return Err(RawError::protocol(format!("a {kind:?} frame out of turn"))),
        };
        if missing == 0 {
            return Ok(Some(delivery));
        }
        *self = Self::Body(delivery, missing);
        Ok(None)
    }
}

/// basic.deliver: class, method, consumer tag, delivery tag, redelivered, exchange, routing key.
fn announced(mut payload: Bytes) -> Result<RawDelivery, RawError> {
    let mut read = || {
        payload.try_get_u32().ok()?;
        short_bytes(&mut payload)?;
        let tag = payload.try_get_u64().ok()?;
        let redelivered = payload.try_get_u8().ok()? & 1 == 1;
        let exchange = short_bytes(&mut payload)?;
        let routing_key = short_bytes(&mut payload)?;
        Some(RawDelivery {
            tag,
            redelivered,
            exchange,
            routing_key,
            properties: Vec::new(),
            body: Vec::new(),
        })
    };
    read().ok_or_else(|| RawError::protocol("a basic.deliver cut short"))
}

/// The content header: class, weight, length of the body, properties.
fn header(mut delivery: RawDelivery, mut payload: Bytes) -> Result<(RawDelivery, usize), RawError> {
    let mut read = || {
        payload.try_get_u32().ok()?;
        payload.try_get_u64().ok()
    };
    let size = read().ok_or_else(|| RawError::protocol("a content header cut short"))?;
    delivery.properties = payload.to_vec();
    match usize::try_from(size) {
        // Memory that is not to be had is an error like a body above the bound, not the end of the
        // process.
        Ok(length) if size <= BODY_MAX && delivery.body.try_reserve_exact(length).is_ok() => {
            Ok((delivery, length))
        }
        _ => Err(RawError::BodyTooLarge { tag: delivery.tag, size }),
    }
}

/// A string of up to 255 bytes, its length before it.
fn short_bytes(from: &mut Bytes) -> Option<Vec<u8>> {
    let length = usize::from(from.try_get_u8().ok()?);
    (from.len() >= length).then(|| from.split_to(length).to_vec())
}
