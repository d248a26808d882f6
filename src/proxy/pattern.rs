//! `proxy.exchanges`: which exchanges messages are delayed for.

/// Names and patterns; one that begins with `!` excludes.
#[derive(Clone, Debug)]
pub(super) struct Patterns(Vec<String>);

impl Patterns {
    pub(super) fn new(patterns: &[String]) -> Self {
        Self(patterns.to_vec())
    }

    /// Whether one includes the name, and none excludes it.
    pub(super) fn matches(&self, name: &[u8]) -> bool {
        let mut including = self.0.iter().filter(|pattern| !pattern.starts_with('!'));
        including.any(|pattern| matches(pattern.as_bytes(), name)) && !self.excludes(name)
    }

    /// Whether one excludes the name.
    pub(super) fn excludes(&self, name: &[u8]) -> bool {
        let mut excluding = self.0.iter().filter_map(|pattern| pattern.strip_prefix('!'));
        excluding.any(|pattern| matches(pattern.as_bytes(), name))
    }
}

/// `*` stands for any bytes, none included. Takes no longer than both lengths multiplied.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(byte) if *byte == name[n] => {
                p += 1;
                n += 1;
            }
            // The last star takes one byte more.
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    p = at + 1;
                    n = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(list: &[&str]) -> Patterns {
        Patterns::new(&list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("*", "orders", true),
            ("orders", "orders", true),
            ("orders", "orders2", false),
            ("or*rs", "orders", true),
            ("or*rs", "orrs", true),
            ("or*rs", "ors", false),
            ("*.eu.*", "shop.eu.orders", true),
            ("*.eu.*", "shop.us.orders", false),
            ("a*b*c", "a-b-b-c", true),
            ("", "", true),
            ("", "orders", false),
        ] {
            assert_eq!(patterns(&[pattern]).matches(name.as_bytes()), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn what_is_excluded_is_excluded_wherever_it_stands() {
        let patterns = patterns(&["!audit.*", "*", "!amq.*"]);
        assert!(patterns.matches(b"orders"));
        assert!(!patterns.matches(b"audit.log"));
        assert!(!patterns.matches(b"amq.topic"));
    }
}
