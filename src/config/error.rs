//! The one error of this module: a list, so that an operator fixes everything in one go.

use std::fmt;

/// Why the configuration was refused: one line for each problem.
#[derive(Debug, thiserror::Error)]
#[error("the configuration was refused:{}", lines(.problems))]
pub struct Error {
    problems: Vec<Problem>,
}

impl Error {
    pub(super) fn new(problems: Vec<Problem>) -> Self {
        Self { problems }
    }

    /// Every problem, in the order found; never empty.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self::new(vec![problem])
    }
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("\n  {problem}")).collect()
}

/// One thing that is wrong, and what to write instead. Holds no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The key, the environment variable or the file that is wrong.
    pub key: String,
    /// The value as written, `***` for a secret; absent when the key itself is the problem.
    pub value: Option<String>,
    /// The file and line, the environment variable or the flag it came from.
    pub origin: String,
    /// What is wrong and the nearest thing that is right.
    pub says: String,
}

impl Problem {
    /// A problem of a key or a file, whatever its value.
    pub(super) fn of(key: &str, origin: &str, says: impl Into<String>) -> Self {
        let (key, origin) = (key.escape_debug().to_string(), origin.to_owned());
        Self { key, value: None, origin, says: says.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)?;
        if let Some(value) = &self.value {
            write!(f, " = {value}")?;
        }
        if self.origin != self.key {
            write!(f, " ({})", self.origin)?;
        }
        write!(f, ": {}", self.says)
    }
}
