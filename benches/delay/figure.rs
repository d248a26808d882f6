//! How figures are written, and sizes read.

/// 13900 as "13 900".
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    grouped
}

/// Microseconds with as many digits as mean something.
pub(crate) fn span(us: u64) -> String {
    match us {
        0..1_000 => format!("{:.2} ms", us as f64 / 1e3),
        1_000..10_000 => format!("{:.1} ms", us as f64 / 1e3),
        10_000..1_000_000 => format!("{:.0} ms", us as f64 / 1e3),
        _ => format!("{:.1} s", us as f64 / 1e6),
    }
}

/// Bytes in the unit that suits them.
pub(crate) fn bytes(bytes: u64) -> String {
    let kib = bytes as f64 / 1_024.0;
    match bytes {
        0..1_024 => format!("{bytes} bytes"),
        1_024..1_048_576 => format!("{kib:.0} KiB"),
        1_048_576..1_073_741_824 => format!("{:.0} MiB", kib / 1_024.0),
        _ => format!("{:.1} GiB", kib / 1_048_576.0),
    }
}

/// Reads `100`, `1KiB` or `2MiB`.
pub(crate) fn size(text: &str) -> Result<usize, String> {
    let (number, unit) = match (text.strip_suffix("KiB"), text.strip_suffix("MiB")) {
        (Some(number), _) => (number, 1 << 10),
        (_, Some(number)) => (number, 1 << 20),
        _ => (text, 1),
    };
    let number: usize = number.parse().map_err(|_| "a size is 100, 1KiB or 2MiB".to_owned())?;
    number.checked_mul(unit).ok_or_else(|| "so much is no size of a body".to_owned())
}

/// Of an even number of values, the middle between the two in the middle.
pub(crate) fn median(values: impl Iterator<Item = u64>) -> u64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    let at = |place: usize| values.get(place).copied().unwrap_or(0);
    at(values.len().saturating_sub(1) / 2).midpoint(at(values.len() / 2))
}

/// How much there was in each second; 0 when there was no time.
pub(crate) fn per_second(messages: u64, seconds: f64) -> u64 {
    if seconds > 0.0 { (messages as f64 / seconds).round() as u64 } else { 0 }
}
