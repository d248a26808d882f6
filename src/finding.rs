//! One thing that was looked at, what was found, and what to do about it.
//!
//! `xdelay check` prints findings as a table, `/ready` fails on the bad ones. A finding that is
//! not good always says what mends it: it is read at three in the morning.

use std::fmt;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// As it should be.
    Good,
    /// Works, but somebody should know.
    Warning,
    /// Not safe to go on with: `/ready` fails.
    Bad,
}

impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Good => "ok",
            Self::Warning => "warning",
            Self::Bad => "FAILED",
        })
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at, such as `redis durability`.
    pub subject: String,
    /// How bad it is.
    pub grade: Grade,
    /// What was found, and unless it is good what to do, in one line.
    pub detail: String,
}

impl Finding {
    /// All is well.
    pub fn good(subject: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(subject, Grade::Good, detail)
    }

    /// Works, but somebody should know.
    pub fn warning(subject: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(subject, Grade::Warning, detail)
    }

    /// Not safe to go on with.
    pub fn bad(subject: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(subject, Grade::Bad, detail)
    }

    fn new(subject: impl Into<String>, grade: Grade, detail: impl Into<String>) -> Self {
        Self { subject: subject.into(), grade, detail: detail.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<8} {:<28} {}", self.grade, self.subject, self.detail)
    }
}
