//! What a broker's error means for the messages that were in flight: whose fault it is.

use std::fmt;

/// What the broker says when it closes a channel or a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub code: u16,
    pub text: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} ({})", self.text, self.code)
    }
}

/// Whose fault an error is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Blame {
    /// The destination takes nothing, whatever the message.
    Destination(String),
    /// The connection or the broker; nothing is known of any message.
    Connection(String),
    /// Nothing broke, but confirms did not come in time.
    Confirms(String),
    /// One of the messages, which is found by publishing them one by one.
    Message(String),
}

/// Blames what a publishing channel was closed with.
pub(super) fn blame(refusal: &Refusal) -> Blame {
    let text = refusal.text.clone();
    match refusal.code {
        404 => Blame::Destination(text),
        // A user may write to an exchange, but not with every topic: that is one message's key.
        403 if is_about_topic(&text) => Blame::Message(text),
        403 => Blame::Destination(text),
        // A frame that is too large is one message's; what else ends a connection is not.
        501 | 311..=313 | 405..=406 => Blame::Message(text),
        _ => Blame::Connection(text),
    }
}

/// Whether a refusal is of a routing key and not of the whole exchange.
pub(super) fn is_about_topic(text: &str) -> bool {
    text.contains("to topic")
}
