//! When something is to be due, as a request says it.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value as Json;
use utoipa::ToSchema;

use super::State;
use super::problem::Problem;
use super::words::Instant;
use crate::clock::UnixMs;
use crate::delay::{self, Headers, Value, When, Wish};

/// The most milliseconds that a request may name: the OpenAPI file has them as signed, of 64 bits.
pub(super) const MILLIS_MAX: u64 = i64::MAX as u64;

/// Reads milliseconds that need not be given.
pub(super) fn millis<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    match Option::deserialize(from)? {
        Some(ms) if ms > MILLIS_MAX => {
            Err(D::Error::custom(format!("milliseconds are at most {MILLIS_MAX}")))
        }
        given => Ok(given),
    }
}

/// A new due: one of the two.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[schema(example = json!({"delay_ms": 60_000}))]
pub(super) struct Due {
    /// In so many milliseconds; 0 is now.
    pub delay_ms: Option<u64>,
    /// At this instant: Unix milliseconds, or RFC 3339.
    #[schema(value_type = Option<Instant>, inline, example = "2026-12-01T00:00:00Z")]
    pub deliver_at: Option<Json>,
}

impl Due {
    /// The same where nothing may be said: then a message keeps its own.
    pub(super) fn read_if_given(&self, state: &State) -> Result<Option<When>, Problem> {
        if self.delay_ms.is_none() && self.deliver_at.is_none() {
            return Ok(None);
        }
        self.read(state).map(Some)
    }

    /// Reads it by the same rules as the headers of a captured message.
    pub(super) fn read(&self, state: &State) -> Result<When, Problem> {
        let now = state.clock.now();
        let deliver_at = match &self.deliver_at {
            None => None,
            Some(Json::String(text)) => Some(Value::Text(text.as_bytes())),
            Some(Json::Number(number)) => {
                let ms = number.as_i64().ok_or_else(|| {
                    Problem::invalid("deliver_at is Unix milliseconds or RFC 3339")
                })?;
                Some(Value::Integer(ms))
            }
            Some(_) => return Err(Problem::invalid("deliver_at is Unix milliseconds or RFC 3339")),
        };
        let delay = self.delay_ms.map(|ms| Value::Integer(i64::try_from(ms).unwrap_or(i64::MAX)));
        if delay.is_some() == deliver_at.is_some() {
            return Err(Problem::invalid("give one of delay_ms and deliver_at"));
        }
        let headers = Headers { delay, deliver_at, id: None, cancel: None };
        match delay::read(&headers, now, state.max_delay_ms) {
            Ok(Wish::Hold(when, _)) => Ok(when),
            Ok(Wish::Cancel(_)) => Err(Problem::invalid("this is no cancel")),
            Err(reason) => Err(Problem::invalid(reason.to_string())),
        }
    }
}

/// The instant, for steps that must mean the same one however long they take.
pub(super) fn instant(when: When, now: UnixMs) -> UnixMs {
    match when {
        When::AtOnce => now.saturating_sub(1),
        When::In(ms) => now.saturating_add(ms),
        When::At(due) => due,
        When::Since { stamp, ms } => stamp.saturating_add(ms),
    }
}
