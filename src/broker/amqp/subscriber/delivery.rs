//! Deliveries put together from frames, without decoding them.

use amq_protocol::frame::AMQPFrameType;
use bytes::{Buf, Bytes};

use crate::broker::amqp::connection::{RawError, RawFrame};

/// RabbitMQ itself takes no message above this, whatever its configuration says.
const BODY_MAX: u64 = 512 * 1024 * 1024;

/// A message as it was delivered, each part byte for byte.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) struct Delivered {
    pub(in super::super) tag: u64,
    pub(in super::super) exchange: Bytes,
    pub(in super::super) routing_key: Bytes,
    /// The content header's property flags and property list.
    pub(in super::super) properties: Bytes,
    pub(in super::super) body: Bytes,
}

/// How far the next delivery has come.
#[derive(Default)]
pub(super) enum Assembly {
    #[default]
    Idle,
    /// basic.deliver is there, the content header is not.
    Announced(Delivered),
    /// So many bytes of the body are still to come after these.
    Body(Delivered, Vec<u8>, usize),
}

impl Assembly {
    /// Takes in the next frame of the channel's content; gives the delivery it completes.
    pub(super) fn feed(&mut self, frame: &RawFrame) -> Result<Option<Delivered>, RawError> {
        let payload = frame.payload.clone();
        match (std::mem::take(self), &frame.kind) {
            (Self::Idle, AMQPFrameType::Method) => {
                *self = Self::Announced(announced(payload)?);
                Ok(None)
            }
            (Self::Announced(delivery), AMQPFrameType::Header) => {
                let (delivery, size) = header(delivery, payload)?;
                Ok(self.wait_for(delivery, Vec::new(), size))
            }
            (Self::Body(delivery, before, missing), AMQPFrameType::Body) => {
                let left = missing.checked_sub(payload.len());
                let left =
                    left.ok_or_else(|| RawError::protocol("a body longer than announced"))?;
                if before.is_empty() && left == 0 {
                    return Ok(Some(Delivered { body: payload, ..delivery }));
                }
                let body = grown(before, &payload, left, delivery.tag)?;
                Ok(self.wait_for(delivery, body, left))
            }
            (_, kind) => Err(RawError::protocol(format!("a {kind:?} frame out of turn"))),
        }
    }

    fn wait_for(&mut self, delivery: Delivered, body: Vec<u8>, left: usize) -> Option<Delivered> {
        if left == 0 {
            return Some(Delivered { body: body.into(), ..delivery });
        }
        *self = Self::Body(delivery, body, left);
        None
    }
}

/// A body of several frames. Memory that is not to be had is an error like a body above the bound,
/// not the end of the process.
fn grown(mut body: Vec<u8>, part: &[u8], left: usize, tag: u64) -> Result<Vec<u8>, RawError> {
    let rest = part.len() + left;
    if body.try_reserve_exact(rest).is_err() {
        return Err(RawError::BodyTooLarge { tag, size: (body.len() + rest) as u64 });
    }
    body.extend_from_slice(part);
    Ok(body)
}

/// basic.deliver: class, method, consumer tag, delivery tag, redelivered, exchange, routing key.
fn announced(mut payload: Bytes) -> Result<Delivered, RawError> {
    let mut read = || {
        payload.try_get_u32().ok()?;
        short(&mut payload)?;
        let tag = payload.try_get_u64().ok()?;
        payload.try_get_u8().ok()?;
        let exchange = short(&mut payload)?;
        let routing_key = short(&mut payload)?;
        Some(Delivered { tag, exchange, routing_key, ..Delivered::default() })
    };
    read().ok_or_else(|| RawError::protocol("a basic.deliver cut short"))
}

/// The content header: class, weight, length of the body, properties. Answers that length as well.
fn header(mut delivery: Delivered, mut payload: Bytes) -> Result<(Delivered, usize), RawError> {
    let mut read = || {
        payload.try_get_u32().ok()?;
        payload.try_get_u64().ok()
    };
    let size = read().ok_or_else(|| RawError::protocol("a content header cut short"))?;
    delivery.properties = payload;
    match usize::try_from(size) {
        Ok(length) if size <= BODY_MAX => Ok((delivery, length)),
        _ => Err(RawError::BodyTooLarge { tag: delivery.tag, size }),
    }
}

/// A string of up to 255 bytes, its length before it.
fn short(from: &mut Bytes) -> Option<Bytes> {
    let length = usize::from(from.try_get_u8().ok()?);
    (from.len() >= length).then(|| from.split_to(length))
}
