//! Durations as people write them: `250ms`, `30s`, `5m`, `1h 30m`, `3650d`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const DAY: u64 = 86_400;

/// A duration with its unit written out. A bare number is refused: seconds or milliseconds?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Human(pub Duration);

impl FromStr for Human {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // humantime reads `5M` as five months; whoever types that means minutes.
        let parsed = (!text.contains('M')).then(|| humantime::parse_duration(text));
        match parsed {
            Some(Ok(duration)) => Ok(Self(duration)),
            _ => Err(format!("is not a duration; write \"{}\"", nearest(text))),
        }
    }
}

/// The same number with the unit that was probably meant, or an example.
fn nearest(text: &str) -> String {
    let text = text.trim().trim_start_matches(['-', '+']).to_ascii_lowercase();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit = match unit.trim() {
        "" => "s",
        unit if unit.starts_with("ms") || unit.starts_with("mil") => "ms",
        unit => &unit[..unit.chars().next().map_or(0, char::len_utf8)],
    };
    let candidate = format!("{number}{unit}");
    match humantime::parse_duration(&candidate) {
        Ok(_) => candidate,
        Err(_) => "30s".to_owned(),
    }
}

impl fmt::Display for Human {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = (self.0.as_secs(), self.0.subsec_nanos());
        if seconds > 0 || nanos == 0 {
            let units = [(DAY, "d"), (3600, "h"), (60, "m"), (1, "s")];
            let fits = |(size, _): &&(u64, &str)| seconds > 0 && seconds.is_multiple_of(*size);
            let (size, unit) = units.iter().find(fits).unwrap_or(&(1, "s"));
            write!(f, "{}{unit}", seconds / size)?;
        }
        if nanos > 0 {
            let units = [(1_000_000, "ms"), (1_000, "us"), (1, "ns")];
            let fits = |(size, _): &&(u32, &str)| nanos.is_multiple_of(*size);
            let (size, unit) = units.iter().find(fits).unwrap_or(&(1, "ns"));
            let gap = if seconds > 0 { " " } else { "" };
            write!(f, "{gap}{}{unit}", nanos / size)?;
        }
        Ok(())
    }
}

impl Serialize for Human {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Human {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Written)
    }
}

struct Written;

impl Visitor<'_> for Written {
    type Value = Human;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Human, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Human, E> {
        Err(E::custom(format!("has no unit; write \"{number}s\"")))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Human, E> {
        self.visit_u64(number.unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn prints_the_largest_unit_that_is_exact() {
        let text = |duration| Human(duration).to_string();
        assert_eq!(text(Duration::from_secs(3650 * DAY)), "3650d");
        assert_eq!(text(Duration::from_secs(90)), "90s");
        assert_eq!(text(Duration::from_millis(1500)), "1s 500ms");
        assert_eq!(text(Duration::ZERO), "0s");
    }

    #[test]
    fn suggests_the_unit_that_was_meant() {
        for (text, expected) in [
            ("30", "30s"),
            ("-5 s", "5s"),
            ("5M", "5m"),
            ("30S", "30s"),
            ("10 millisecs", "10ms"),
            ("2 Days", "2d"),
            ("3weekends", "3w"),
            ("soon", "30s"),
            ("", "30s"),
            ("5 ärgerlich", "30s"),
            ("99999999999999999999d", "30s"),
        ] {
            let error = text.parse::<Human>().unwrap_err();
            assert_eq!(error, format!("is not a duration; write \"{expected}\""), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(seconds: u64, nanos in 0..1_000_000_000_u32) {
            let human = Human(Duration::new(seconds, nanos));
            prop_assert_eq!(human.to_string().parse(), Ok(human));
        }

        #[test]
        fn whole_units_are_read_back(count in 0..1_000_000_u64, unit in 0..5_usize) {
            let unit = [1, 1_000, 60_000, 3_600_000, 86_400_000][unit];
            let human = Human(Duration::from_millis(count * unit));
            let json = serde_json::to_string(&human).unwrap();
            prop_assert_eq!(serde_json::from_str::<Human>(&json).unwrap(), human);
        }

        #[test]
        fn any_text_is_answered(text: String) {
            let _ = text.parse::<Human>();
        }
    }
}
