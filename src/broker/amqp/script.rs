//! The topology as commands and as a definitions file, for teams that do not let a sidecar
//! declare. Both are made from the same data that [`super::declare`] works from.

use std::fmt::Write;

use lapin::ExchangeKind;
use lapin::types::{AMQPValue, FieldTable};
use lapin::uri::AMQPUri;
use serde_json::{Map, Value, json};

use super::topology::{self, Item};
use crate::config::Config;

/// Commands for `rabbitmqadmin` and `rabbitmqctl`, with the rights that xdelay's user needs.
pub fn commands(config: &Config) -> String {
    let (user, vhost) = user_and_vhost(config);
    let user = user.as_deref().unwrap_or(USER_SUGGESTED);
    let mut out = String::from(
        "# What xdelay needs in RabbitMQ. rabbitmqadmin comes with the management plugin.\n\n",
    );
    for item in all_items(config) {
        // Writing to a string cannot fail.
        let _ = match void_binding(&item, &vhost) {
            Some(binding) => writeln!(out, "{binding}"),
            None => writeln!(out, "rabbitmqadmin --vhost='{vhost}' {}", command(&item)),
        };
    }
    let [configure, write, read] = rights(config);
    let _ = writeln!(
        out,
        "\n# The rights of xdelay's user. With amqp.declare = false it may not configure anything.\n\
         rabbitmqctl set_permissions -p '{vhost}' '{user}' '{configure}' '{write}' '{read}'\n\
         \n# A producer of delayed messages needs to write to these exchanges:"
    );
    for exchange in &config.amqp.exchanges {
        let _ = writeln!(out, "#   {}", topology::front(exchange));
    }
    out
}

/// A definitions file for `rabbitmqctl import_definitions`. It cannot hold the bindings that
/// match a header's presence, see [`bindings`].
pub fn definitions(config: &Config) -> String {
    let (user, vhost) = user_and_vhost(config);
    let (mut exchanges, mut queues, mut bindings) = (vec![], vec![], vec![]);
    for item in all_items(config) {
        match item {
            item if void_binding(&item, &vhost).is_some() => {}
            Item::Exchange { name, kind, internal, arguments } => exchanges.push(json!({
                "name": name, "vhost": vhost, "type": kind_name(&kind), "durable": true,
                "auto_delete": false, "internal": internal, "arguments": to_json(&arguments),
            })),
            Item::Queue { name, arguments } => queues.push(json!({
                "name": name, "vhost": vhost, "durable": true, "auto_delete": false,
                "arguments": to_json(&arguments),
            })),
            Item::Binding { source, to, to_exchange, routing_key, arguments } => {
                bindings.push(json!({
                    "source": source, "vhost": vhost, "destination": to,
                    "destination_type": if to_exchange { "exchange" } else { "queue" },
                    "routing_key": routing_key, "arguments": to_json(&arguments),
                }));
            }
        }
    }
    let [configure, write, read] = rights(config);
    let mut all = json!({ "exchanges": exchanges, "queues": queues, "bindings": bindings });
    if let Some(user) = user {
        all["permissions"] = json!([{
            "user": user, "vhost": vhost, "configure": configure, "write": write, "read": read,
        }]);
    }
    format!("{all:#}")
}

/// Commands for the bindings that a definitions file cannot hold.
pub fn bindings(config: &Config) -> String {
    let (_, vhost) = user_and_vhost(config);
    let items = all_items(config);
    let commands: Vec<_> = items.iter().filter_map(|item| void_binding(item, &vhost)).collect();
    commands.join("\n")
}

/// The command that makes a binding on a header's presence. Its arguments have no value, which
/// JSON cannot tell RabbitMQ: neither the management API nor a definitions file takes a null
/// (tried on 3.10.8 and 4.3.6).
fn void_binding(item: &Item, vhost: &str) -> Option<String> {
    let Item::Binding { source, to, arguments, .. } = item else { return None };
    if !arguments.inner().values().any(|value| *value == AMQPValue::Void) {
        return None;
    }
    let pairs = arguments.inner().iter().map(|(name, value)| match value {
        AMQPValue::LongString(text) => format!("{{<<\"{name}\">>,longstr,<<\"{text}\">>}}"),
        _ => format!("{{<<\"{name}\">>,void,undefined}}"),
    });
    let resource = |kind: &str, name: &str| {
        let name = name.replace('\\', "\\\\").replace('"', "\\\"");
        format!("{{resource,<<\"{vhost}\">>,{kind},<<\"{name}\">>}}")
    };
    Some(format!(
        "rabbitmqctl eval 'rabbit_binding:add({{binding,{},<<>>,{},[{}]}}, <<\"xdelay\">>).'",
        resource("exchange", source),
        resource("queue", to),
        pairs.collect::<Vec<_>>().join(",")
    ))
}

/// Every item once, whatever number of destinations shares it.
fn all_items(config: &Config) -> Vec<Item> {
    let mut all: Vec<Item> = Vec::new();
    for exchange in &config.amqp.exchanges {
        for item in topology::items(exchange, config.amqp.front) {
            if !all.contains(&item) {
                all.push(item);
            }
        }
    }
    all
}

/// What xdelay's user must be allowed to configure, write and read. Declaring an exchange with
/// an alternate, or a queue with a dead-letter exchange, needs rights on both ends; so does
/// looking at a binding.
fn rights(config: &Config) -> [String; 3] {
    let names: Vec<String> = config.amqp.exchanges.iter().map(|name| escape(name)).collect();
    let ours = r"xdelay\..*";
    // The proxy releases to whatever its clients publish to.
    if config.proxy.is_some() {
        return [format!("^{ours}$"), ".*".to_owned(), format!("^{ours}$")];
    }
    let configure = if config.amqp.declare { format!("^{ours}$") } else { "^$".to_owned() };
    [configure, format!("^({ours}|{})$", names.join("|")), format!("^{ours}$")]
}

fn escape(name: &str) -> String {
    let special = |c: char| r"\.+*?()|[]{}^$".contains(c);
    name.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

fn command(item: &Item) -> String {
    match item {
        Item::Exchange { name, kind, internal, arguments } => format!(
            "declare exchange name='{name}' type={} durable=true internal={internal} arguments='{}'",
            kind_name(kind),
            to_json(arguments)
        ),
        Item::Queue { name, arguments } => {
            format!("declare queue name='{name}' durable=true arguments='{}'", to_json(arguments))
        }
        Item::Binding { source, to, to_exchange, routing_key, arguments } => format!(
            "declare binding source='{source}' destination='{to}' destination_type={} \
             routing_key='{routing_key}' arguments='{}'",
            if *to_exchange { "exchange" } else { "queue" },
            to_json(arguments)
        ),
    }
}

fn kind_name(kind: &ExchangeKind) -> &str {
    match kind {
        ExchangeKind::Custom(name) => name,
        ExchangeKind::Direct => "direct",
        ExchangeKind::Fanout => "fanout",
        ExchangeKind::Headers => "headers",
        ExchangeKind::Topic => "topic",
    }
}

/// The few kinds of values that the topology uses.
fn to_json(arguments: &FieldTable) -> Value {
    let value = |value: &AMQPValue| match value {
        AMQPValue::LongString(text) => Value::from(text.to_string()),
        AMQPValue::LongLongInt(number) => Value::from(*number),
        AMQPValue::Boolean(yes) => Value::from(*yes),
        _ => Value::Null,
    };
    let pairs = arguments.inner().iter().map(|(key, v)| (key.to_string(), value(v)));
    Value::Object(pairs.collect::<Map<_, _>>())
}

/// Whose rights are printed where xdelay runs as `guest`: narrowing those would lock out others.
const USER_SUGGESTED: &str = "xdelay";

fn user_and_vhost(config: &Config) -> (Option<String>, String) {
    let uri = config.amqp.nodes.first().and_then(|node| node.expose().parse::<AMQPUri>().ok());
    let uri = uri.unwrap_or_default();
    let user = uri.authority.userinfo.username;
    ((user != "guest").then_some(user), uri.vhost)
}
