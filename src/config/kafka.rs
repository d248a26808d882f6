//! `[kafka]`: the names of topics, and properties that are librdkafka's and not ours.

use std::collections::{BTreeMap, BTreeSet};

use figment::value::{Dict, Value};

use super::check::Check;
use super::origin::quoted;
use super::settings::{Kafka, Topics};
use super::tree::join;
use super::{Secret, credentials, schema};

const TOPICS: &str = "kafka.topics";
const PROPERTIES: &str = "kafka.properties";
/// What producers write to begins like this.
const RESERVED: &str = "xdelay.";
/// Kafka's own bound of a topic's name, in bytes.
const MAX_NAME: usize = 249;
/// A property that ends in this is the path of a file that holds the value.
const FILE: &str = "_file";

/// Properties that hold a promise of xdelay's, or have a key of their own.
const OURS: [(&str, &str); 16] = [
    ("bootstrap.servers", "write it as kafka.brokers"),
    ("metadata.broker.list", "write it as kafka.brokers"),
    ("group.id", "write it as kafka.group"),
    ("enable.auto.commit", "an offset is committed when its record is parked, never before"),
    ("enable.auto.offset.store", "an offset is committed when its record is parked, never before"),
    ("auto.offset.reset", "where to read on is decided by what the store holds"),
    ("partition.assignment.strategy", "replicas must all speak cooperative-sticky"),
    ("isolation.level", "what a transaction took back must not be released"),
    ("enable.idempotence", "a release must be written once and in order"),
    ("acks", "a release counts when all replicas have it"),
    ("request.required.acks", "a release counts when all replicas have it"),
    ("allow.auto.create.topics", "xdelay never creates a destination"),
    ("partitioner", "a record must reach the partition that its producer would choose"),
    ("transactional.id", "a release is no transaction: consumers read it as it is"),
    ("message.timeout.ms", "it follows from release.lease"),
    ("delivery.timeout.ms", "it follows from release.lease"),
];

/// Checks the section.
pub(super) fn check(check: &mut Check, raw: &schema::Kafka) -> Option<Kafka> {
    let brokers = brokers(check, &raw.brokers);
    let topics = topics(check, &raw.topics);
    let says = "must not be empty; write \"xdelay\"";
    let group = check.holds("kafka.group", raw.group.clone(), !raw.group.is_empty(), says);
    let create_topics = check.holds("kafka.create_topics", raw.create_topics, true, "");
    let preserve_partition =
        check.holds("kafka.preserve_partition", raw.preserve_partition, true, "");
    let properties = properties(check, &raw.properties);
    Some(Kafka {
        brokers: brokers?,
        topics: topics?,
        group: group?,
        create_topics: create_topics?,
        preserve_partition: preserve_partition?,
        properties: properties?,
        from: None,
    })
}

fn brokers(check: &mut Check, text: &str) -> Option<String> {
    let is_node = |node: &str| {
        let node = node.trim();
        let port =
            node.rsplit_once(':').map(|(host, port)| (!host.is_empty(), port.parse::<u16>()));
        matches!(port, Some((true, Ok(_)))) && !node.contains("://") && !node.contains('@')
    };
    let says = "must be host:port, several separated by commas; write \"127.0.0.1:9092\"";
    check.holds("kafka.brokers", text.to_owned(), text.split(',').all(is_node), says)
}

fn topics(check: &mut Check, names: &[String]) -> Option<Topics> {
    if check.is_broken(TOPICS) {
        return None;
    }
    if names.len() == 1 && names[0] == "*" {
        return Some(Topics::All);
    }
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    for name in names {
        problems.extend(wrong(name));
        if !seen.insert(name) {
            problems.push(format!("names {} twice; write it once", quoted(name)));
        }
    }
    for says in &problems {
        check.refuse(TOPICS, says);
    }
    problems.is_empty().then(|| Topics::Named(names.to_vec()))
}

fn wrong(name: &str) -> Option<String> {
    let longest = MAX_NAME - RESERVED.len();
    let known = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if let Some(rest) = name.strip_prefix(RESERVED) {
        let rest = if rest.is_empty() { "orders" } else { rest };
        let says = "begins with the reserved `xdelay.`; name the destination itself, write";
        return Some(format!("{} {says} {}", quoted(name), quoted(rest)));
    }
    if name == "*" {
        return Some("has \"*\" beside names; write [\"*\"] alone".to_owned());
    }
    if name.is_empty() || !name.chars().all(known) {
        let says = "is no name of a topic, which is one or more of A-Z a-z 0-9 . _ -; write";
        return Some(format!("{} {says} \"orders\"", quoted(name)));
    }
    let says = || format!("is {} bytes long; xdelay can serve at most {longest}", name.len());
    (name.len() > longest).then(|| format!("{} {}", quoted(name), says()))
}

/// Every property by its full name, files read. Values are not looked at: librdkafka says what it
/// does not take, by name alone.
fn properties(check: &mut Check, raw: &Dict) -> Option<BTreeMap<String, Secret>> {
    let mut flat = BTreeMap::new();
    flatten("", raw, &mut flat);
    let mut properties = BTreeMap::new();
    let mut whole = true;
    for (name, value) in flat {
        let key = join(PROPERTIES, &name);
        let (name, value) = match (name.strip_suffix(FILE), value) {
            (Some(name), Some(path)) => {
                (name.to_owned(), credentials::secret(check, &key, &path).map(Secret::new))
            }
            (_, Some(value)) => (name, Some(Secret::new(value))),
            (_, None) => {
                check.refuse(&key, "must be text, a number, or true or false");
                whole = false;
                continue;
            }
        };
        if let Some((_, why)) = OURS.iter().find(|(ours, _)| *ours == name) {
            check.refuse(&key, format!("cannot be set: {why}"));
            whole = false;
        }
        match value {
            Some(value) => drop(properties.insert(name, value)),
            None => whole = false,
        }
    }
    whole.then_some(properties)
}

/// `None` for a value that is a list or nothing.
fn flatten(section: &str, dict: &Dict, flat: &mut BTreeMap<String, Option<String>>) {
    for (key, value) in dict {
        let name = join(section, key);
        match value {
            Value::Dict(_, inner) => flatten(&name, inner, flat),
            Value::String(_, text) => drop(flat.insert(name, Some(text.clone()))),
            Value::Char(_, c) => drop(flat.insert(name, Some(c.to_string()))),
            Value::Bool(_, yes) => drop(flat.insert(name, Some(yes.to_string()))),
            Value::Num(_, number) => {
                let text = match (number.to_i128(), number.to_u128(), number.to_f64()) {
                    (Some(number), _, _) => Some(number.to_string()),
                    (_, Some(number), _) => Some(number.to_string()),
                    (_, _, number) => number.map(|number| number.to_string()),
                };
                flat.insert(name, text);
            }
            Value::Array(..) | Value::Empty(..) => drop(flat.insert(name, None)),
        }
    }
}
