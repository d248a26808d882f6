//! A publish as it stands on the wire.

use crate::broker::amqp::outgoing::Outgoing;
use crate::message::amqp::property_list::CONTENT_FIXED;

const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;
const END: u8 = 0xce;
/// Type, channel and length before the payload of a frame, and the mark after it.
const OVERHEAD: usize = 8;

/// class basic, method publish, and a short that nobody uses.
const PUBLISH: [u8; 6] = [0, 60, 0, 40, 0, 0];
/// class basic, and a weight that is always nothing.
const CONTENT: [u8; 4] = [0, 60, 0, 0];
const MANDATORY: u8 = 1;

/// Whether the content header of a message fits a frame of so many bytes.
pub(in super::super) fn fits(message: &Outgoing, frame_max: usize) -> bool {
    OVERHEAD + CONTENT_FIXED + message.properties.len() <= frame_max
}

/// Appends all frames of one message. Exchange and routing key are at most 255 bytes.
pub(super) fn publish(
    to: &mut Vec<u8>,
    channel: u16,
    exchange: &str,
    message: &Outgoing,
    frame_max: usize,
) {
    let Outgoing { routing_key, properties, body, .. } = message;
    to.reserve(body.len() + properties.len() + routing_key.len() + exchange.len() + 64);
    frame(to, METHOD, channel, |to| {
        to.extend_from_slice(&PUBLISH);
        for short in [exchange.as_bytes(), &routing_key[..]] {
            to.push(short.len() as u8);
            to.extend_from_slice(short);
        }
        to.push(MANDATORY);
    });
    frame(to, HEADER, channel, |to| {
        to.extend_from_slice(&CONTENT);
        to.extend_from_slice(&(body.len() as u64).to_be_bytes());
        to.extend_from_slice(properties);
    });
    for part in body.chunks(frame_max.saturating_sub(OVERHEAD).max(1)) {
        frame(to, BODY, channel, |to| to.extend_from_slice(part));
    }
}

fn frame(to: &mut Vec<u8>, kind: u8, channel: u16, payload: impl FnOnce(&mut Vec<u8>)) {
    to.push(kind);
    to.extend_from_slice(&channel.to_be_bytes());
    let length_at = to.len();
    to.extend_from_slice(&[0; 4]);
    payload(to);
    let length = (to.len() - length_at - 4) as u32;
    to[length_at..length_at + 4].copy_from_slice(&length.to_be_bytes());
    to.push(END);
}
