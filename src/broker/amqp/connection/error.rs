//! What can end a connection. None of these leaves it usable.

use amq_protocol::protocol::AMQPClass;

#[derive(Debug, thiserror::Error)]
pub(in super::super) enum RawError {
    #[error("the broker's connection failed: {0}")]
    Io(#[from] std::io::Error),
    #[error("waited too long for the broker: {0}")]
    Timeout(&'static str),
    #[error("nothing came from the broker for two heartbeat intervals")]
    Silent,
    #[error("the broker closed the connection: {code} {text}")]
    ConnectionClosed { code: u16, text: String },
    #[error("delivery {tag} has a body of {size} bytes, more than is taken")]
    BodyTooLarge { tag: u64, size: u64 },
    #[error("not understood: {0}")]
    Protocol(String),
}

impl RawError {
    pub(in super::super) fn protocol(what: impl Into<String>) -> Self {
        Self::Protocol(what.into())
    }

    /// Another method than the one that may stand here.
    pub(super) fn unexpected(awaited: &str, method: &AMQPClass) -> Self {
        Self::Protocol(format!("awaited {awaited}, got {method:?}"))
    }
}
