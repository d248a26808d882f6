//! Declarations as users of the delayed-message plugin make them, in the bytes they travel in.
//!
//! An exchange of type `x-delayed-message` becomes one of the type it names as `x-delayed-type`;
//! a queue that dead-letters into such an exchange dead-letters into its capture instead, since
//! dead-lettering happens inside the broker, where nothing can be redirected.

use crate::message::amqp::table::{self, Malformed};

/// The type that the plugin registers, and brokers without it refuse.
const PLUGIN_TYPE: &[u8] = b"x-delayed-message";
/// The argument that names the type the exchange has otherwise.
const DELAYED_TYPE: &[u8] = b"x-delayed-type";
const DEAD_LETTER: &[u8] = b"x-dead-letter-exchange";
/// The types that RabbitMQ brings along. On 3.x one that it does not know ends the connection.
const TYPES: [&[u8]; 10] = [
    b"direct",
    b"fanout",
    b"headers",
    b"topic",
    b"x-consistent-hash",
    b"x-jms-topic",
    b"x-local-random",
    b"x-modulus-hash",
    b"x-random",
    b"x-recent-history",
];
/// What the plugin says of any other, in the broker's form.
pub(super) const BAD_TYPE: &str =
    "Invalid argument, 'x-delayed-type' must be an existing exchange type";

/// The payload of an `exchange.declare` or `queue.declare`, taken apart.
struct Declare<'a> {
    /// All before the type or, of a queue, before its flags.
    before: &'a [u8],
    name: &'a [u8],
    kind: &'a [u8],
    flags: u8,
    /// Without its length.
    arguments: &'a [u8],
}

/// What becomes of the declaration of an exchange.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Exchange<'a> {
    /// It passes as it is.
    Other,
    /// It names no type that could be declared.
    Bad,
    /// It is declared like this, and counts as delayed.
    Delayed { name: &'a [u8], payload: Vec<u8> },
}

/// Reads an `exchange.declare`.
pub(super) fn exchange(payload: &[u8]) -> Exchange<'_> {
    let Some(declare) = Declare::of_exchange(payload) else { return Exchange::Other };
    // A passive declare asks whether the name is there, and nothing of its type.
    if declare.kind != PLUGIN_TYPE || declare.flags & 1 != 0 {
        return Exchange::Other;
    }
    let Ok(real) = find(declare.arguments, DELAYED_TYPE) else { return Exchange::Other };
    let Some(real) = real.filter(|kind| TYPES.contains(kind)) else { return Exchange::Bad };
    let mut out = declare.before.to_vec();
    out.push(real.len() as u8);
    out.extend_from_slice(real);
    out.push(declare.flags);
    push_arguments(&mut out, declare.arguments, |name, _| name == DELAYED_TYPE, b"");
    Exchange::Delayed { name: declare.name, payload: out }
}

/// The exchange that a queue dead-letters into, if it does.
pub(super) fn dead_letters_to(payload: &[u8]) -> Option<&[u8]> {
    let declare = Declare::of_queue(payload)?;
    find(declare.arguments, DEAD_LETTER).ok()?
}

/// The same declaration of a queue, which dead-letters into another exchange.
pub(super) fn dead_lettering_to(payload: &[u8], exchange: &[u8]) -> Option<Vec<u8>> {
    let declare = Declare::of_queue(payload)?;
    let mut out = declare.before.to_vec();
    out.push(declare.flags);
    let is_it = |name: &[u8], kind| name == DEAD_LETTER && kind == b'S';
    push_arguments(&mut out, declare.arguments, is_it, exchange);
    Some(out)
}

/// The exchange that an `exchange.delete` names.
pub(super) fn deleted(payload: &[u8]) -> Option<&[u8]> {
    short(payload.get(6..)?).map(|(name, _)| name)
}

impl<'a> Declare<'a> {
    fn of_exchange(payload: &'a [u8]) -> Option<Self> {
        let (name, rest) = short(payload.get(6..)?)?;
        let before = &payload[..payload.len() - rest.len()];
        let (kind, rest) = short(rest)?;
        let (&flags, rest) = rest.split_first()?;
        Some(Self { before, name, kind, flags, arguments: arguments(rest)? })
    }

    fn of_queue(payload: &'a [u8]) -> Option<Self> {
        let (name, rest) = short(payload.get(6..)?)?;
        let before = &payload[..payload.len() - rest.len()];
        let (&flags, rest) = rest.split_first()?;
        Some(Self { before, name, kind: b"", flags, arguments: arguments(rest)? })
    }
}

/// The inside of a table that goes to the end.
fn arguments(bytes: &[u8]) -> Option<&[u8]> {
    let (length, inside) = bytes.split_first_chunk()?;
    (u32::from_be_bytes(*length) as usize == inside.len()).then_some(inside)
}

/// The text of an argument, if it is there and is one.
fn find<'a>(arguments: &'a [u8], name: &[u8]) -> Result<Option<&'a [u8]>, Malformed> {
    let mut found = None;
    for field in table::fields(arguments) {
        let field = field?;
        if arguments[field.name] == *name && field.kind == b'S' {
            found = Some(&arguments[field.value.start + 4..field.value.end]);
        }
    }
    Ok(found)
}

/// Appends all arguments but those `changed`, which get this text, or go where there is none.
fn push_arguments(
    out: &mut Vec<u8>,
    arguments: &[u8],
    changed: impl Fn(&[u8], u8) -> bool,
    text: &[u8],
) {
    let length_at = out.len();
    out.extend_from_slice(&[0; 4]);
    for field in table::fields(arguments).flatten() {
        if !changed(&arguments[field.name.clone()], field.kind) {
            out.extend_from_slice(&arguments[field.whole()]);
        } else if !text.is_empty() {
            out.extend_from_slice(&arguments[field.name.start - 1..field.value.start]);
            out.extend_from_slice(&(text.len() as u32).to_be_bytes());
            out.extend_from_slice(text);
        }
    }
    let length = (out.len() - length_at - 4) as u32;
    out[length_at..length_at + 4].copy_from_slice(&length.to_be_bytes());
}

fn short(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(length))
}

#[cfg(test)]
mod tests;
