//! What a broker's error means for the messages that were in flight: whose fault it is.

use lapin::{Error, ErrorKind};

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

/// Blames an error of a publishing channel.
pub(super) fn blame(error: &Error) -> Blame {
    let ErrorKind::ProtocolError(refusal) = error.kind() else {
        return Blame::Connection(error.to_string());
    };
    let text = refusal.get_message().to_string();
    match refusal.get_id() {
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
