//! A message as a line of text, to move it to another store: `xdelay export` writes them, `xdelay
//! import` reads them.
//!
//! One JSON object a line. The message itself is the envelope that a store keeps, so it is read by
//! the same rules: every version ever written, and what is damaged is told apart.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::envelope;
use super::{Author, Entry, Found, State};
use crate::broker::portrait::portray;
use crate::clock::UnixMs;
use crate::delay::When;
use crate::message::{BrokerKind, Destination, Message, Reason, Uid};

/// The last millisecond of the year 9999.
const DUE_MAX: UnixMs = 253_402_300_799_999;

/// What a line holds.
#[derive(Serialize, Deserialize)]
struct Line {
    broker: String,
    destination: String,
    uid: String,
    /// When it is, or was, due.
    due: UnixMs,
    /// Of what is dead: why.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// How often its release failed by its own fault; earlier versions left it out.
    #[serde(default, skip_serializing_if = "is_none")]
    attempts: u32,
    /// The envelope, base64.
    envelope: String,
}

fn is_none(count: &u32) -> bool {
    *count == 0
}

/// Writes a message that was found; `None` while a replica is releasing it.
///
/// # Errors
/// Why it cannot be read here.
pub fn to_line(
    destination: &Destination,
    found: &Found,
) -> Result<Option<String>, envelope::Fault> {
    let message = found.message.as_ref().map_err(Clone::clone)?;
    let reason = match found.seen.state {
        State::Leased => return Ok(None),
        State::Parked => None,
        State::Dead => Some(found.seen.reason.clone().unwrap_or_default()),
    };
    let line = Line {
        broker: destination.broker.as_str().to_owned(),
        destination: destination.name.to_string(),
        uid: message.uid.to_string(),
        due: found.seen.due,
        reason,
        attempts: found.seen.attempts,
        envelope: STANDARD.encode(envelope::pack(message)),
    };
    Ok(serde_json::to_string(&line).ok())
}

/// A message that was read, and what is to become of it.
#[derive(Debug)]
pub struct Moved {
    /// Whose it is.
    pub destination: Destination,
    /// The message.
    pub message: Message,
    /// When it is, or was, due.
    pub due: UnixMs,
    /// Why it is dead, if it is.
    pub reason: Option<String>,
    /// How often its release failed by its own fault.
    pub attempts: u32,
}

impl Moved {
    /// The entry that parks it again, dead or not: what is dead is buried after that, since a burial
    /// alone would forget its due.
    pub fn entry(&self) -> Entry {
        let priority = priority(&self.message);
        let (message, when) = (self.message.clone(), When::At(self.due));
        Entry::Park { message, when, priority, by: Author::Operator }
    }

    /// Why it is to be buried, if it is.
    pub fn burial(&self) -> Option<Reason> {
        self.reason.as_ref().map(|reason| Reason::new("imported", reason.clone()))
    }
}

/// Reads what [`to_line`] wrote.
///
/// # Errors
/// What is wrong with the line.
pub fn from_line(line: &str) -> Result<Moved, String> {
    let line: Line = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let broker = BrokerKind::parse(&line.broker)
        .ok_or_else(|| format!("this version knows no broker `{}`", line.broker))?;
    let destination = Destination { broker, name: line.destination.into() };
    if line.due > DUE_MAX {
        return Err(format!("its due, {}, lies beyond the year 9999", line.due));
    }
    let uid = Uid::parse(&line.uid).ok_or("its uid is none")?;
    let packed = STANDARD.decode(&line.envelope).map_err(|error| error.to_string())?;
    let message = envelope::unpack(uid, Bytes::from(packed)).map_err(|fault| fault.to_string())?;
    let Line { due, reason, attempts, .. } = line;
    Ok(Moved { destination, message, due, reason, attempts })
}

fn priority(message: &Message) -> u8 {
    let portrait = portray(&message.content).unwrap_or_default();
    let priority = portrait.properties.get("priority").and_then(serde_json::Value::as_u64);
    priority.and_then(|priority| u8::try_from(priority).ok()).unwrap_or(0)
}
