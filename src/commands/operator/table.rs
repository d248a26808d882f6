//! Answers as people read them.

use std::time::Duration;

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::Value;

/// A table with these columns, as wide as the terminal.
pub(super) fn table(columns: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(columns.iter().copied());
    table
}

/// Text, numbers and truths as they are; nothing as a dash.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) if text.is_empty() => "-".to_owned(),
        Value::String(text) => printable(text),
        other => printable(&other.to_string()),
    }
}

/// A terminal obeys control characters, and names and headers come from producers.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// How far an instant lies from now, such as `in 2h 5m` or `3s ago`.
pub(super) fn from_now(at: &Value, now: u64) -> String {
    let Some(at) = at.as_u64() else { return "-".to_owned() };
    let ms = at.abs_diff(now);
    // Two units are enough to act on.
    let whole = if ms < 10_000 { ms } else { ms / 1_000 * 1_000 };
    let words = humantime::format_duration(Duration::from_millis(whole)).to_string();
    let words: Vec<_> = words.split(' ').take(2).collect();
    let words = words.join(" ");
    if at >= now { format!("in {words}") } else { format!("{words} ago") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn instants_are_told_from_now() {
        assert_eq!(from_now(&json!(7_505_000), 0), "in 2h 5m");
        assert_eq!(from_now(&json!(0), 3_000), "3s ago");
        assert_eq!(from_now(&Value::Null, 0), "-");
    }

    #[test]
    fn a_terminal_is_not_steered_by_a_producer() {
        assert_eq!(text(&json!("a\u{1b}[31mb")), "a?[31mb");
    }
}
