//! The collector of problems that every check of a value writes to.

use std::ops::RangeInclusive;

use super::error::Problem;
use super::origin::Layers;
use super::read::Broken;
use super::unknown;

/// Collects what is refused. Every method gives `None` for a key that was refused, now or before.
pub(super) struct Check<'a> {
    pub layers: &'a Layers,
    pub broken: Broken,
    pub problems: &'a mut Vec<Problem>,
}

impl Check<'_> {
    /// Notes a problem with the value of a key, unless its type was refused before.
    pub(super) fn refuse(&mut self, key: &str, says: impl Into<String>) {
        if !self.is_broken(key) {
            let value = self.layers.shown(key);
            let origin = self.layers.origin(key);
            self.problems.push(Problem { value, ..Problem::of(key, &origin, says) });
        }
    }

    /// Whether the type of a key, or of its section, was refused.
    pub(super) fn is_broken(&self, key: &str) -> bool {
        let within = |broken: &String| key.strip_prefix(broken.as_str());
        let mut rests = self.broken.iter().filter_map(within);
        rests.any(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// A value that must fulfil a condition.
    pub(super) fn holds<T>(&mut self, key: &str, value: T, holds: bool, says: &str) -> Option<T> {
        if !holds {
            self.refuse(key, says);
        }
        (holds && !self.is_broken(key)).then_some(value)
    }

    /// A number in a range.
    pub(super) fn number<T: TryFrom<i64>>(
        &mut self,
        key: &str,
        value: i64,
        range: RangeInclusive<i64>,
    ) -> Option<T> {
        let (low, high) = (*range.start(), *range.end());
        let says = format!("must be {low} to {high}; write {}", value.clamp(low, high));
        self.holds(key, value, range.contains(&value), &says)
            .and_then(|value| T::try_from(value).ok())
    }

    /// One of a few words.
    pub(super) fn word<T: Copy>(
        &mut self,
        key: &str,
        text: &str,
        words: &[(&str, T)],
    ) -> Option<T> {
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return self.holds(key, *value, true, "");
        }
        let names: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        let near = unknown::nearest(&text.to_lowercase(), names.iter().copied());
        let near = near.or(names.first().copied()).unwrap_or_default();
        self.refuse(key, format!("must be {}; write \"{near}\"", names.join(" or ")));
        None
    }
}
