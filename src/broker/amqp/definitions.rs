//! An exported definitions file of a RabbitMQ with the delayed-message plugin, made into one for a
//! RabbitMQ without it and with xdelay.
//!
//! Such an export declares exchanges of a type that nobody knows any more. Imported as it is, they
//! are refused, or stand there and refuse every publish. So each gets the type it has otherwise, and
//! what leads into it inside the broker, where no producer and no proxy can be asked, leads into its
//! capture: bindings from ordinary exchanges, and dead-letter exchanges of queues and policies.

use std::collections::BTreeSet;

use lapin::ExchangeKind;
use serde_json::{Map, Value, json};

use super::topology::{self, Item};

const PLUGIN_TYPE: &str = "x-delayed-message";
const DELAYED_TYPE: &str = "x-delayed-type";
/// The longest name that leaves room for those made from it.
const NAME_MAX: usize = 255 - "xdelay..rescue".len();

/// What was changed, a line each, for the person who is about to import it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What is different now.
    pub changes: Vec<String>,
    /// What is left to do or to look at.
    pub notes: Vec<String>,
}

/// An exchange: its vhost, empty in the export of a single one, and its name.
type Name = (String, String);

/// Converts `definitions` in place.
///
/// # Errors
/// Everything that makes it impossible, a line each; then nothing is to be used.
pub fn convert(definitions: &mut Value) -> Result<Report, Vec<String>> {
    let Some(all) = definitions.as_object_mut() else {
        return Err(vec!["this is no definitions file: it is not a JSON object".to_owned()]);
    };
    let mut report = Report::default();
    let delayed = exchanges(all, &mut report)?;
    bindings(all, &delayed, &mut report);
    queues(all, &delayed, &mut report);
    policies(all, &delayed, &mut report);
    declare_captures(all, &delayed);
    note(all, &delayed, &mut report);
    Ok(report)
}

/// Gives every delayed exchange its real type; answers which there are.
fn exchanges(
    all: &mut Map<String, Value>,
    report: &mut Report,
) -> Result<BTreeSet<Name>, Vec<String>> {
    let (mut delayed, mut wrong) = (BTreeSet::new(), Vec::new());
    for exchange in list(all, "exchanges") {
        if text(exchange, "type") != PLUGIN_TYPE {
            continue;
        }
        let name = named(exchange);
        let shown = show(&name);
        let real = exchange["arguments"].as_object_mut();
        let real = real.and_then(|arguments| arguments.remove(DELAYED_TYPE));
        let Some(real) = real.as_ref().and_then(Value::as_str).filter(|kind| *kind != PLUGIN_TYPE)
        else {
            wrong.push(format!("exchange {shown} has no usable argument {DELAYED_TYPE}"));
            continue;
        };
        if name.1.len() > NAME_MAX {
            wrong.push(format!("exchange {shown} has a name of more than {NAME_MAX} bytes"));
        }
        report.changes.push(format!("exchange {shown}: type {PLUGIN_TYPE} is now {real}"));
        exchange["type"] = Value::from(real);
        delayed.insert(name);
    }
    if wrong.is_empty() { Ok(delayed) } else { Err(wrong) }
}

/// What comes from an exchange that does not delay has to be delayed on its way in.
fn bindings(all: &mut Map<String, Value>, delayed: &BTreeSet<Name>, report: &mut Report) {
    for binding in list(all, "bindings") {
        let vhost = text(binding, "vhost").to_owned();
        let to = (vhost.clone(), text(binding, "destination").to_owned());
        let from = (vhost, text(binding, "source").to_owned());
        let into_delayed = text(binding, "destination_type") == "exchange" && delayed.contains(&to);
        if into_delayed && !delayed.contains(&from) {
            let capture = topology::front(&to.1);
            report.changes.push(format!(
                "binding from exchange {} to exchange {}: leads to {capture} now",
                show(&from),
                show(&to)
            ));
            binding["destination"] = Value::from(capture);
        }
    }
}

fn queues(all: &mut Map<String, Value>, delayed: &BTreeSet<Name>, report: &mut Report) {
    for queue in list(all, "queues") {
        let (vhost, name) = named(queue);
        let subject = format!("queue {}", show(&(vhost.clone(), name)));
        if let Some(arguments) = queue["arguments"].as_object_mut() {
            redirect(arguments, "x-dead-letter-exchange", &vhost, delayed, (&subject, report));
        }
    }
}

fn policies(all: &mut Map<String, Value>, delayed: &BTreeSet<Name>, report: &mut Report) {
    for policy in list(all, "policies") {
        let (vhost, name) = named(policy);
        let subject = format!("policy {}", show(&(vhost.clone(), name)));
        if let Some(definition) = policy["definition"].as_object_mut() {
            redirect(definition, "dead-letter-exchange", &vhost, delayed, (&subject, report));
        }
    }
}

/// Sends what is dead-lettered into a delayed exchange into its capture.
fn redirect(
    settings: &mut Map<String, Value>,
    key: &str,
    vhost: &str,
    delayed: &BTreeSet<Name>,
    (subject, report): (&str, &mut Report),
) {
    let Some(target) = settings.get_mut(key) else { return };
    let name = target.as_str().unwrap_or_default().to_owned();
    if delayed.contains(&(vhost.to_owned(), name.clone())) {
        let capture = topology::front(&name);
        report.changes.push(format!("{subject}: {key} {name} is now {capture}"));
        *target = Value::from(capture);
    }
}

/// What is bound to a capture exchange has to find it. xdelay declares the rest at its start.
fn declare_captures(all: &mut Map<String, Value>, delayed: &BTreeSet<Name>) {
    if delayed.is_empty() {
        return;
    }
    let known: BTreeSet<Name> = list(all, "exchanges").map(|exchange| named(exchange)).collect();
    let mut more = Vec::new();
    for (vhost, name) in delayed {
        let front = json!({ "alternate-exchange": name });
        let front = (topology::front(name), "headers", false, front);
        let mark = match topology::mark(name) {
            Item::Exchange { name, kind: ExchangeKind::Fanout, internal, .. } => {
                (name, "fanout", internal, json!({}))
            }
            _ => continue,
        };
        for (name, kind, internal, arguments) in [front, mark] {
            if known.contains(&(vhost.clone(), name.clone())) {
                continue;
            }
            let mut exchange = json!({
                "name": name, "type": kind, "durable": true, "auto_delete": false,
                "internal": internal, "arguments": arguments,
            });
            if !vhost.is_empty() {
                exchange["vhost"] = Value::from(vhost.as_str());
            }
            more.push(exchange);
        }
    }
    if let Some(Value::Array(exchanges)) = all.get_mut("exchanges") {
        exchanges.extend(more);
    }
}

fn note(all: &mut Map<String, Value>, delayed: &BTreeSet<Name>, report: &mut Report) {
    let notes = &mut report.notes;
    if delayed.is_empty() {
        notes.push(format!("there is no exchange of type {PLUGIN_TYPE}: nothing is to be done"));
        return;
    }
    let vhosts: BTreeSet<&str> = delayed.iter().map(|(vhost, _)| vhost.as_str()).collect();
    for vhost in vhosts {
        let of_it = delayed.iter().filter(|(of, _)| of == vhost);
        let names: Vec<String> = of_it.map(|(_, name)| format!("\"{name}\"")).collect();
        let at = if vhost.is_empty() { String::new() } else { format!(" for vhost {vhost}") };
        notes.push(format!(
            "after the import, and before any producer, start xdelay{at} with amqp.exchanges = [{}]: \
             until then what leads into a capture passes undelayed",
            names.join(", ")
        ));
    }
    for exchange in list(all, "exchanges") {
        let (vhost, name) = named(exchange);
        let alternate = exchange["arguments"]["alternate-exchange"].as_str().unwrap_or_default();
        if delayed.contains(&(vhost, alternate.to_owned())) && !name.starts_with("xdelay.") {
            notes.push(format!(
                "exchange {name} has {alternate} as its alternate exchange: what takes that way is \
                 not delayed any more"
            ));
        }
    }
}

fn list<'a>(
    all: &'a mut Map<String, Value>,
    key: &str,
) -> impl Iterator<Item = &'a mut Value> + use<'a> {
    all.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten()
}

fn named(item: &Value) -> Name {
    (text(item, "vhost").to_owned(), text(item, "name").to_owned())
}

fn text<'a>(item: &'a Value, key: &str) -> &'a str {
    item.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn show((vhost, name): &Name) -> String {
    if vhost.is_empty() { name.clone() } else { format!("{name} (vhost {vhost})") }
}

#[cfg(test)]
mod tests;
