//! Text that must never be printed.

use std::fmt;

use serde::{Serialize, Serializer};

/// What stands for a secret wherever one would be printed.
pub(super) const REDACTED: &str = "***";

/// A password or token. `Debug`, `Display` and `Serialize` all give `***`.
///
/// It has no `PartialEq`: comparing a token with `==` tells an attacker how many bytes were right.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    pub(super) fn new(text: String) -> Self {
        Self(text)
    }

    /// The secret itself, for the one call that needs it. Never pass it to a log or an error.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(REDACTED)
    }
}
