//! Byte sizes as people write them: `64MiB`, `1GB`, or a plain number of bytes.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Binary units first: printing prefers them.
const UNITS: [(&str, u64); 8] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
];

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Human(pub u64);

impl FromStr for Human {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text).ok_or_else(|| format!("is not a size; write \"{}\"", nearest(text)))
    }
}

fn parse(text: &str) -> Option<Human> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..split].parse().ok()?;
    let factor = match text[split..].trim_start() {
        "" | "B" => 1,
        "KB" => 1_000,
        unit => UNITS.iter().find(|(name, _)| *name == unit)?.1,
    };
    number.checked_mul(factor).map(Human)
}

/// The same number with the unit that was probably meant, or an example.
fn nearest(text: &str) -> String {
    let text = text.trim().trim_start_matches(['-', '+']);
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit = text[split..].trim().to_ascii_uppercase();
    let letter = unit.chars().next().unwrap_or('B');
    // `64M` and `64m` mean memory here, and memory is counted in powers of two.
    let unit = match unit.as_str() {
        "KB" | "MB" | "GB" | "TB" => unit,
        _ => format!("{letter}iB"),
    };
    let candidate = format!("{}{unit}", &text[..split]);
    parse(&candidate).map_or_else(|| "64MiB".to_owned(), |_| candidate)
}

impl fmt::Display for Human {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |(_, size): &&(&str, u64)| self.0 > 0 && self.0.is_multiple_of(*size);
        match UNITS.iter().find(fits) {
            Some((unit, size)) => write!(f, "{}{unit}", self.0 / size),
            None => write!(f, "{}", self.0),
        }
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
        f.write_str("a size")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Human, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<Human, E> {
        Ok(Human(bytes))
    }

    fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<Human, E> {
        let negative = |_| E::custom("is negative; write \"64MiB\"");
        u64::try_from(bytes).map(Human).map_err(negative)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_binary_and_decimal_units_and_plain_bytes() {
        for (text, bytes) in [
            ("64MiB", 64 << 20),
            ("1 GiB", 1 << 30),
            ("1GB", 1_000_000_000),
            ("2kB", 2_000),
            ("2KB", 2_000),
            ("17", 17),
            ("17B", 17),
        ] {
            assert_eq!(text.parse(), Ok(Human(bytes)), "{text}");
        }
        assert_eq!(serde_json::from_str::<Human>("17").unwrap(), Human(17));
        assert!(serde_json::from_str::<Human>("-17").is_err());
    }

    #[test]
    fn suggests_the_unit_that_was_meant() {
        for (text, expected) in [
            ("64M", "64MiB"),
            ("64mb", "64MB"),
            ("64mib", "64MiB"),
            ("-1k", "1KiB"),
            ("1.5GiB", "64MiB"),
            ("lots", "64MiB"),
            ("", "64MiB"),
            ("99999999999TiB", "64MiB"),
        ] {
            let error = text.parse::<Human>().unwrap_err();
            assert_eq!(error, format!("is not a size; write \"{expected}\""), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(bytes: u64) {
            prop_assert_eq!(Human(bytes).to_string().parse(), Ok(Human(bytes)));
        }

        #[test]
        fn whole_units_are_read_back(count in 0..1_000_u64, unit in 0..8_usize) {
            let human = Human(count * UNITS[unit].1);
            let json = serde_json::to_string(&human).unwrap();
            prop_assert_eq!(serde_json::from_str::<Human>(&json).unwrap(), human);
        }

        #[test]
        fn any_text_is_answered(text: String) {
            let _ = text.parse::<Human>();
        }
    }
}
