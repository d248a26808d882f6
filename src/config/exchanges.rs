//! Names of destinations: each must leave room for the names xdelay makes from it.

use std::collections::BTreeSet;

use super::check::Check;
use super::origin::quoted;

const KEY: &str = "amqp.exchanges";
/// What xdelay declares itself begins like this.
const RESERVED: &str = "xdelay.";
/// The longest of the names made from a destination, around it: `xdelay.<name>.rescue`.
const AROUND: usize = "xdelay..rescue".len();
/// AMQP counts the length of a name in one byte.
const MAX_NAME: usize = 255;
/// Exchanges that stand beside `xdelay.<name>` and are called `xdelay.<name><suffix>`.
const BESIDE: [&str; 3] = [".delayed", ".rescue", ".split"];

/// Checks the list as a whole and every name in it. `needed`: nothing else is served.
pub(super) fn check(check: &mut Check, names: &[String], needed: bool) -> Option<Vec<String>> {
    if check.is_broken(KEY) {
        return None;
    }
    let mut problems = Vec::new();
    if names.is_empty() && needed {
        problems.push(
            "names no exchange, and kafka.topics no topic, so there is nothing to do; write \
             [\"orders\"] to one of the two"
                .to_owned(),
        );
    }
    let mut seen = BTreeSet::new();
    for name in names {
        problems.extend(wrong(name, names));
        if !seen.insert(name) {
            problems.push(format!("names {} twice; write it once", quoted(name)));
        }
    }
    for says in &problems {
        check.refuse(KEY, says);
    }
    problems.is_empty().then(|| names.to_vec())
}

fn wrong(name: &str, names: &[String]) -> Option<String> {
    let longest = MAX_NAME - AROUND;
    if name.is_empty() {
        return Some(
            "has an empty name: the default exchange cannot be captured by an exchange; \
             name the exchange that producers publish to"
                .to_owned(),
        );
    }
    if let Some(rest) = name.strip_prefix(RESERVED) {
        let rest = if rest.is_empty() { "orders" } else { rest };
        let says = "begins with the reserved `xdelay.`; name the destination itself, write";
        return Some(format!("{} {says} {}", quoted(name), quoted(rest)));
    }
    if name.len() > longest {
        let says = format!("is {} bytes long; xdelay can serve at most {longest}", name.len());
        return Some(format!("{} {says}", quoted(name)));
    }
    let owner = BESIDE.iter().find_map(|suffix| name.strip_suffix(suffix));
    let owner = owner.filter(|owner| names.iter().any(|other| other == owner))?;
    Some(format!(
        "{} and {} cannot be served by one xdelay: both need the exchange `xdelay.{}`",
        quoted(owner),
        quoted(name),
        name.escape_debug()
    ))
}
