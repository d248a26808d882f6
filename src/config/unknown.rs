//! Keys that do not exist. A misspelt key would leave its default in force without a word, so it
//! is refused, and the key that was probably meant is named in the spelling of its layer.

use figment::value::{Dict, Value};

use super::error::Problem;
use super::layers::ENV_PREFIX;
use super::origin::{self, Place};
use super::tree::{Tree, join};

/// Below this likeness a suggestion would only confuse.
const ALIKE: f64 = 0.75;

/// Refuses and removes every unknown key of a file, and every section that is no table.
pub(super) fn prune(dict: &mut Dict, tree: &Tree, file: &Place, problems: &mut Vec<Problem>) {
    prune_section("", dict, tree.root(), &mut |key, is_known| {
        let says = if is_known {
            "expected a section".to_owned()
        } else {
            advice(key, tree, str::to_owned)
        };
        problems.push(Problem::of(key, &file.of_key(key), says));
    });
}

fn prune_section(name: &str, dict: &mut Dict, known: &Dict, refuse: &mut impl FnMut(&str, bool)) {
    dict.retain(|key, value| {
        let full = join(name, key);
        match (known.get(key), value) {
            (None, _) => refuse(&full, false),
            (Some(Value::Dict(..)), Value::Dict(..)) if Tree::is_open(&full) => return true,
            (Some(Value::Dict(_, known)), Value::Dict(_, dict)) => {
                prune_section(&full, dict, known, refuse);
                return true;
            }
            (Some(Value::Dict(..)), _) => refuse(&full, true),
            (Some(_), _) => return true,
        }
        false
    });
}

/// What is wrong with an unknown key, and what was probably meant. `spell` writes a key as its
/// layer does.
pub(super) fn advice(key: &str, tree: &Tree, spell: impl Fn(&str) -> String) -> String {
    let inside = format!("{key}.");
    let inner = tree.keys().iter().filter(|known| known.starts_with(&inside));
    let inner: Vec<_> = inner.map(|known| spell(known)).collect();
    if !inner.is_empty() {
        return format!("is a section; write one of {}", inner.join(", "));
    }
    let suffix = format!(".{key}");
    let moved = tree.keys().iter().filter(|known| known.ends_with(&suffix));
    let moved: Vec<_> = moved.map(|known| spell(known)).collect();
    if !moved.is_empty() {
        return format!("unknown key; write {}", moved.join(" or "));
    }
    let (section, name) = key.split_once('.').unwrap_or((key, ""));
    if tree.default_of(section).is_none() {
        let sections = tree.sections();
        return match nearest(section, sections.iter().copied()) {
            Some(right) => format!("unknown section; write {}", spell(&respell(tree, right, name))),
            None => format!("this version has no such section; it has {}", sections.join(", ")),
        };
    }
    let inside = format!("{section}.");
    let siblings = || tree.keys().iter().filter(|known| known.starts_with(&inside));
    let elsewhere = tree.keys().iter().find(|known| last(known) == last(key));
    let near = nearest(key, siblings().map(String::as_str));
    match elsewhere.map(String::as_str).or(near) {
        Some(right) => format!("unknown key; the nearest is {}", spell(right)),
        None => {
            let siblings: Vec<_> =
                siblings().map(|known| known[inside.len()..].to_owned()).collect();
            format!("unknown key; [{section}] has {}", siblings.join(", "))
        }
    }
}

/// `name` under the right section if it exists there, else the section alone.
fn respell(tree: &Tree, section: &str, name: &str) -> String {
    let full = join(section, name);
    if tree.has(&full) { full } else { section.to_owned() }
}

/// What the commands that talk to a running xdelay read by themselves.
const ADMIN_URL: &str = "XDELAY_ADMIN_URL";

/// What is wrong with a variable `XDELAY_...` that has no `__`; `None` if it is not meant for us.
pub(super) fn variable(name: &str, value: &str, tree: &Tree) -> Option<Problem> {
    if is_service_link(name, value) || name == ADMIN_URL {
        return None;
    }
    // Without the prefix, which would make every name look alike.
    let rest = name.strip_prefix(ENV_PREFIX)?.to_ascii_lowercase();
    let flat: Vec<_> = tree.keys().iter().map(|key| key.replace('.', "_")).collect();
    let near = nearest(&rest, flat.iter().map(String::as_str));
    let near = near.and_then(|near| flat.iter().position(|flat| flat == near));
    let says = match near.and_then(|at| tree.keys().get(at)) {
        Some(key) => format!("unknown variable; write {}", origin::variable(key)),
        None => "unknown variable; the form is XDELAY_<SECTION>__<KEY>".to_owned(),
    };
    Some(Problem::of(name, "environment", says))
}

/// Kubernetes gives every pod variables named after the services of its namespace: one called
/// `xdelay` or `xdelay-redis` would otherwise keep the pod from starting.
fn is_service_link(name: &str, value: &str) -> bool {
    let Some(rest) = name.strip_prefix(ENV_PREFIX) else {
        return true;
    };
    let own = rest == "PORT" || rest.starts_with("PORT_") || rest == "SERVICE_HOST";
    let address = ["tcp://", "udp://", "sctp://"].iter().any(|scheme| value.starts_with(scheme));
    let numbered =
        rest.split("_PORT_").skip(1).any(|tail| tail.starts_with(|c: char| c.is_ascii_digit()));
    own || rest.starts_with("SERVICE_PORT")
        || rest.ends_with("_SERVICE_HOST")
        || rest.contains("_SERVICE_PORT")
        || (rest.ends_with("_PORT") && address)
        || numbered
}

/// The most alike of some words, if any is alike enough.
pub(super) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.map(|known| (strsim::jaro_winkler(last(word), last(known)), known));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 >= ALIKE).then_some(best.1)
}

fn last(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}
