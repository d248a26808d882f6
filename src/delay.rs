//! Reads what a producer asked for: when its message is due, under which id, or what to cancel.
//!
//! Pure functions over header values that each broker's adapter hands in as [`Value`]s. The rule
//! behind every edge case: **a value that cannot be read is never guessed at.** A message that
//! cancels an order is better kept for an operator than delivered at once, so what is not
//! understood is an error here and is buried by the caller, unless it was told to forward.
//!
//! | header | accepted |
//! | --- | --- |
//! | `x-delay` | integers, `-?[0-9]+` as text, finite floats (rounded up); 0 and less: not delayed |
//! | `x-deliver-at` | the same as Unix milliseconds, RFC 3339 text, an AMQP timestamp (seconds) |
//! | `x-delay-id`, `x-delay-cancel` | UTF-8 text of 1 to 255 bytes |

#[cfg(any(test, feature = "test-support"))]
pub mod fuzz;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::clock::UnixMs;
use crate::message::{ProducerId, Reason};

/// Milliseconds to wait, as the producer asks.
pub const DELAY: &str = "x-delay";
/// Absolute due, as the producer asks.
pub const DELIVER_AT: &str = "x-deliver-at";
/// The producer's own id.
pub const DELAY_ID: &str = "x-delay-id";
/// The id of the message to cancel.
pub const DELAY_CANCEL: &str = "x-delay-cancel";

/// A header value, as far as a delay can be read from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// An integer of any width.
    Integer(i64),
    /// A binary floating-point number.
    Float(f64),
    /// Text or bytes.
    Text(&'a [u8]),
    /// A point in time, in seconds since the Unix epoch.
    Seconds(u64),
    /// Anything else, by the name of its type.
    Other(&'static str),
}

/// The headers of one message that steer its delay.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Headers<'a> {
    /// [`DELAY`]
    pub delay: Option<Value<'a>>,
    /// [`DELIVER_AT`]
    pub deliver_at: Option<Value<'a>>,
    /// [`DELAY_ID`]
    pub id: Option<Value<'a>>,
    /// [`DELAY_CANCEL`]
    pub cancel: Option<Value<'a>>,
}

/// When a message may be released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// It was captured, but asks for no delay.
    AtOnce,
    /// So many milliseconds after it is parked, by the store's clock.
    In(u64),
    /// At this instant.
    At(UnixMs),
    /// So many milliseconds after the message says it was written, or after it is parked where that
    /// lies ahead of the store's clock.
    Since {
        /// When it says it was written.
        stamp: UnixMs,
        /// How long after that.
        ms: u64,
    },
}

/// What a producer asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Hold the message, and replace an earlier one of the same id.
    Hold(When, Option<ProducerId>),
    /// Cancel the message of this id; the one that says so is consumed.
    Cancel(ProducerId),
}

/// Reads the wish in `headers`. `now` is the store's clock, `max_ms` the longest delay allowed.
///
/// # Errors
/// The reason to bury the message for, when a header cannot be read or lies beyond `max_ms`.
pub fn read(headers: &Headers<'_>, now: UnixMs, max_ms: u64) -> Result<Wish, Reason> {
    if let Some(cancel) = headers.cancel {
        return id(DELAY_CANCEL, cancel).map(Wish::Cancel);
    }
    let id = headers.id.map(|value| id(DELAY_ID, value)).transpose()?;
    let when = match (headers.deliver_at, headers.delay) {
        (Some(at), _) => When::At(deliver_at(at, now, max_ms)?),
        (None, Some(value)) => delay(value, max_ms)?,
        (None, None) => When::AtOnce,
    };
    Ok(Wish::Hold(when, id))
}

fn delay(value: Value<'_>, max_ms: u64) -> Result<When, Reason> {
    match number(DELAY, value)? {
        ..=0 => Ok(When::AtOnce),
        ms if ms as u128 > u128::from(max_ms) => Err(beyond(DELAY, value, max_ms)),
        ms => Ok(When::In(ms as u64)),
    }
}

fn deliver_at(value: Value<'_>, now: UnixMs, max_ms: u64) -> Result<UnixMs, Reason> {
    let due = match value {
        Value::Seconds(seconds) => i128::from(seconds) * 1_000,
        Value::Text(text) => match digits(text) {
            Some(ms) => ms,
            None => rfc3339(text).ok_or_else(|| unreadable(DELIVER_AT, value))?,
        },
        other => number(DELIVER_AT, other)?,
    };
    let due = due.max(0) as u128;
    if due > u128::from(now) + u128::from(max_ms) {
        return Err(beyond(DELIVER_AT, value, max_ms));
    }
    Ok(due as UnixMs)
}

fn number(header: &str, value: Value<'_>) -> Result<i128, Reason> {
    match value {
        Value::Integer(number) => Ok(i128::from(number)),
        // A cast to an integer saturates, so a float beyond every limit stays beyond it.
        Value::Float(number) if number.is_finite() => Ok(number.ceil() as i128),
        Value::Text(text) => digits(text).ok_or_else(|| unreadable(header, value)),
        _ => Err(unreadable(header, value)),
    }
}

/// `-?[0-9]+`, saturating: a number too long for 128 bits is beyond every limit anyway.
fn digits(text: &[u8]) -> Option<i128> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let magnitude = digits
        .iter()
        .fold(0_i128, |sum, digit| sum.saturating_mul(10).saturating_add(i128::from(digit - b'0')));
    Some(if negative { -magnitude } else { magnitude })
}

/// Unix milliseconds of an RFC 3339 text, rounded up.
fn rfc3339(text: &[u8]) -> Option<i128> {
    let instant = OffsetDateTime::parse(std::str::from_utf8(text).ok()?, &Rfc3339).ok()?;
    let nanos = instant.unix_timestamp_nanos();
    Some(nanos.div_euclid(1_000_000) + i128::from(nanos.rem_euclid(1_000_000) != 0))
}

fn id(header: &str, value: Value<'_>) -> Result<ProducerId, Reason> {
    match value {
        Value::Text(text) => ProducerId::new(text).ok_or_else(|| {
            let bytes = text.len();
            invalid(format!("{header} is not UTF-8 of 1 to 255 bytes: it has {bytes} bytes"))
        }),
        _ => Err(invalid(format!("{header} is {}, not text", kind(value)))),
    }
}

fn invalid(text: String) -> Reason {
    Reason::new("invalid", text)
}

fn unreadable(header: &str, value: Value<'_>) -> Reason {
    invalid(format!("{header} cannot be read: {}", show(value)))
}

fn beyond(header: &str, value: Value<'_>, max_ms: u64) -> Reason {
    let value = show(value);
    invalid(format!("{header} is {value}, beyond delay.max of {max_ms} ms"))
}

fn show(value: Value<'_>) -> String {
    match value {
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Seconds(seconds) => format!("{seconds} s"),
        Value::Text(text) => {
            let start = &text[..text.len().min(64)];
            format!("{:?}", String::from_utf8_lossy(start))
        }
        Value::Other(kind) => format!("a value of type {kind}"),
    }
}

fn kind(value: Value<'_>) -> &'static str {
    match value {
        Value::Integer(_) => "an integer",
        Value::Float(_) => "a float",
        Value::Seconds(_) => "a timestamp",
        Value::Text(_) => "text",
        Value::Other(kind) => kind,
    }
}

#[cfg(test)]
mod tests;
