//! Messages as the API shows them.

use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::broker::portrait::{hex, portray};
use crate::clock::{UnixMs, rfc3339};
use crate::message::Destination;
use crate::store::{Found, Seen, State};

/// Bytes of a body that a preview shows.
const PREVIEW_BYTES: usize = 4_096;

/// One message, without its body.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "uid": "0198c5d0a3f27b0e8f7a1c2d3e4f5a6b", "id": "order-17", "destination": "orders",
    "broker": "amqp", "state": "parked", "due": 1_795_276_800_000_u64,
    "due_at": "2026-11-21T16:00:00Z", "at": 1_795_276_800_000_u64, "delay_ms": 1_800_000,
    "key": "eu.de", "attempts": 0, "bytes": 512, "reason": null, "fault": null
}))]
pub(super) struct MessageView {
    /// xdelay's name for it, the same on every released copy.
    uid: String,
    /// Its producer's `x-delay-id`.
    id: Option<String>,
    /// The exchange or topic it will be released to.
    destination: String,
    /// `amqp` or `kafka`.
    broker: &'static str,
    /// `parked`, `leased` or `dead`.
    state: &'static str,
    /// When it may be released, in Unix milliseconds.
    due: UnixMs,
    /// The same in RFC 3339, UTC.
    due_at: String,
    /// Parked: when it is tried next. Leased: when its lease ends. Dead: when it was buried.
    at: UnixMs,
    /// The delay its producer asked for, in milliseconds.
    delay_ms: Option<u64>,
    /// Its routing key or record key.
    key: Option<String>,
    /// How often its release failed by its own fault.
    attempts: u32,
    /// Its size in the store.
    bytes: u64,
    /// Why it is dead.
    reason: Option<String>,
    /// Why it cannot be read here, if it cannot.
    fault: Option<String>,
}

/// One message with all its facts.
#[derive(Serialize, ToSchema)]
pub(super) struct WholeMessageView {
    #[serde(flatten)]
    message: MessageView,
    /// What was captured; absent where it cannot be read.
    content: Option<ContentView>,
}

/// What travels.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "properties": {"content_type": "application/json", "delivery_mode": 2},
    "headers": {"x-delay": 1_800_000},
    "body": {"bytes": 13, "format": "json", "preview": "{\"order\": 17}", "truncated": false}
}))]
struct ContentView {
    /// Properties that are set.
    properties: Map<String, Value>,
    /// Headers, in words.
    headers: Map<String, Value>,
    body: BodyView,
}

/// The body, as far as it is shown.
#[derive(Serialize, ToSchema)]
struct BodyView {
    /// Its length.
    bytes: usize,
    /// `json`, `text`, `hex`, or `hidden` where `admin.previews` is off.
    format: &'static str,
    /// Its beginning.
    preview: String,
    /// There is more than the preview shows.
    truncated: bool,
}

impl MessageView {
    pub(super) fn new(destination: &Destination, seen: &Seen) -> Self {
        let head = seen.head.as_ref();
        Self {
            uid: seen.uid.to_string(),
            id: seen.id().map(ToString::to_string),
            destination: destination.name.to_string(),
            broker: destination.broker.as_str(),
            state: state_word(seen.state),
            due: seen.due,
            due_at: rfc3339(seen.due),
            at: seen.at,
            delay_ms: head.ok().and_then(|head| head.delay_ms),
            key: head.ok().map(|head| String::from_utf8_lossy(&head.key).into_owned()),
            attempts: seen.attempts,
            bytes: seen.bytes,
            reason: seen.reason.clone(),
            fault: head.err().map(ToString::to_string),
        }
    }
}

impl WholeMessageView {
    pub(super) fn new(destination: &Destination, found: &Found, previews: bool) -> Self {
        let mut message = MessageView::new(destination, &found.seen);
        let portrait = match &found.message {
            Ok(it) => portray(&it.content),
            Err(fault) => Err(fault.to_string()),
        };
        let content = match portrait {
            Ok(portrait) => Some(ContentView {
                properties: portrait.properties,
                headers: portrait.headers,
                body: BodyView::new(&portrait.body, previews),
            }),
            Err(fault) => {
                message.fault = Some(fault);
                None
            }
        };
        Self { message, content }
    }
}

impl BodyView {
    fn new(body: &[u8], previews: bool) -> Self {
        let bytes = body.len();
        if !previews {
            return Self { bytes, format: "hidden", preview: String::new(), truncated: bytes > 0 };
        }
        let shown = &body[..bytes.min(PREVIEW_BYTES)];
        let truncated = shown.len() < bytes;
        let (format, preview) = match text_of(shown, truncated) {
            Some(text) if is_json(body) => ("json", text.to_owned()),
            Some(text) => ("text", text.to_owned()),
            None => ("hex", hex(shown)),
        };
        Self { bytes, format, preview, truncated }
    }
}

/// Text, if it is; a preview may end in the middle of a character.
fn text_of(shown: &[u8], truncated: bool) -> Option<&str> {
    let text = match std::str::from_utf8(shown) {
        Ok(text) => text,
        Err(error) if truncated && error.error_len().is_none() => {
            std::str::from_utf8(&shown[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    let odd = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    (!text.contains(odd)).then_some(text)
}

fn is_json(body: &[u8]) -> bool {
    let begins = body.iter().find(|byte| !byte.is_ascii_whitespace());
    matches!(begins, Some(b'{' | b'['))
        && serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok()
}

pub(super) fn state_word(state: State) -> &'static str {
    match state {
        State::Parked => "parked",
        State::Leased => "leased",
        State::Dead => "dead",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_shown_as_what_it_is() {
        let seen = |body: &[u8]| {
            let view = BodyView::new(body, true);
            (view.format, view.preview, view.truncated)
        };
        assert_eq!(seen(b"{\"a\": 1}"), ("json", "{\"a\": 1}".into(), false));
        assert_eq!(seen(b"{half"), ("text", "{half".into(), false));
        assert_eq!(seen(&[0, 0xff]), ("hex", "00ff".into(), false));
        let long = "ü".repeat(PREVIEW_BYTES);
        let (format, preview, truncated) = seen(format!("x{long}").as_bytes());
        assert_eq!((format, truncated), ("text", true));
        assert!(preview.len() <= PREVIEW_BYTES && preview.ends_with('ü'));
        assert_eq!(BodyView::new(b"secret", false).preview, "");
    }
}
