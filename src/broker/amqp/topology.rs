//! What must stand in RabbitMQ for messages to be captured, as data.
//!
//! For a destination `orders`, with the headers front:
//!
//! ```text
//! producer -> (xdelay.orders) --a delay header--> [xdelay.park.orders] -> xdelay
//!                   |                                     |
//!                   | alternate-exchange                  | expired, or over its limits
//!                   v                                     v
//!               (orders) -> consumers            (xdelay.orders.rescue) -> [xdelay.rescue] -> xdelay
//! ```
//!
//! Undelayed messages take the alternate exchange inside the broker. With the topic front,
//! `xdelay.orders` is a topic exchange that hands everything to `xdelay.orders.split`, which is
//! the headers exchange above: one hop more, but topic permissions apply.
//!
//! Every argument was measured, see `docs/decisions.md`: a delivery limit of -1 or none loses
//! messages when clients crash, a dead-letter exchange at least once rescues what a policy drops,
//! a single active consumer keeps a cancel behind its park.

use lapin::ExchangeKind;
use lapin::types::{AMQPValue, FieldTable};

use crate::config::Front;
use crate::delay;

/// Where messages go that a capture queue would have dropped.
pub(super) const RESCUE_QUEUE: &str = "xdelay.rescue";
/// The delivery limit that lost nothing on any version: -1 loses all on 3.10, none on 4.x.
const DELIVERY_LIMIT: i64 = 2_147_483_647;

/// One thing to declare or to check.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Item {
    /// A durable exchange.
    Exchange { name: String, kind: ExchangeKind, internal: bool, arguments: FieldTable },
    /// A durable quorum queue.
    Queue { name: String, arguments: FieldTable },
    /// From an exchange to a queue or, where `to_exchange`, to another exchange.
    Binding {
        source: String,
        to: String,
        to_exchange: bool,
        routing_key: &'static str,
        arguments: FieldTable,
    },
}

/// The exchange that producers publish to.
pub(super) fn front(destination: &str) -> String {
    format!("xdelay.{destination}")
}

/// The queue that xdelay consumes.
pub(super) fn park(destination: &str) -> String {
    format!("xdelay.park.{destination}")
}

/// The exchange that a capture queue dead-letters to.
pub(super) fn rescue(destination: &str) -> String {
    format!("xdelay.{destination}.rescue")
}

/// An exchange nobody uses: that it stands says that the destination was declared as the delayed
/// message plugin's.
pub(super) fn mark(destination: &str) -> Item {
    Item::Exchange {
        name: format!("xdelay.{destination}.delayed"),
        kind: ExchangeKind::Fanout,
        internal: true,
        arguments: FieldTable::default(),
    }
}

/// The destination whose capture queue dead-lettered through `exchange`. The broker writes that
/// name, and nobody can publish to an internal exchange, so it can be trusted.
pub(super) fn rescued_from(exchange: &str) -> Option<&str> {
    exchange.strip_prefix("xdelay.")?.strip_suffix(".rescue")
}

fn split(destination: &str) -> String {
    format!("xdelay.{destination}.split")
}

/// All that captures for one destination, in the order to declare it: what receives comes before
/// what sends to it, so that nothing is captured into nowhere.
pub(super) fn items(destination: &str, front_kind: Front) -> Vec<Item> {
    let mut items = vec![
        Item::Exchange {
            name: rescue(destination),
            kind: ExchangeKind::Fanout,
            internal: true,
            arguments: FieldTable::default(),
        },
        Item::Queue { name: RESCUE_QUEUE.to_owned(), arguments: queue_arguments() },
        Item::Binding {
            source: rescue(destination),
            to: RESCUE_QUEUE.to_owned(),
            to_exchange: false,
            routing_key: "",
            arguments: FieldTable::default(),
        },
        Item::Queue { name: park(destination), arguments: park_arguments(destination) },
    ];
    items.extend(fronts(destination, front_kind));
    items
}

fn fronts(destination: &str, front_kind: Front) -> Vec<Item> {
    let splitter = match front_kind {
        Front::Headers => front(destination),
        Front::Topic => split(destination),
    };
    let mut items = vec![
        Item::Exchange {
            name: splitter.clone(),
            kind: ExchangeKind::Headers,
            internal: front_kind == Front::Topic,
            arguments: alternate(destination),
        },
        Item::Binding {
            source: splitter.clone(),
            to: park(destination),
            to_exchange: false,
            routing_key: "",
            arguments: table([
                ("x-match", text("any-with-x")),
                (delay::DELAY, AMQPValue::Void),
                (delay::DELIVER_AT, AMQPValue::Void),
                (delay::DELAY_CANCEL, AMQPValue::Void),
            ]),
        },
    ];
    if front_kind == Front::Topic {
        items.push(Item::Exchange {
            name: front(destination),
            kind: ExchangeKind::Topic,
            internal: false,
            arguments: FieldTable::default(),
        });
        items.push(Item::Binding {
            source: front(destination),
            to: splitter,
            to_exchange: true,
            routing_key: "#",
            arguments: FieldTable::default(),
        });
    }
    items
}

/// Where undelayed messages go on to. The default exchange cannot be an alternate; only the proxy
/// publishes to its capture, and nothing but what is to be delayed.
fn alternate(destination: &str) -> FieldTable {
    match destination {
        "" => FieldTable::default(),
        _ => table([("alternate-exchange", text(destination))]),
    }
}

fn queue_arguments() -> FieldTable {
    table([
        ("x-queue-type", text("quorum")),
        ("x-delivery-limit", AMQPValue::LongLongInt(DELIVERY_LIMIT)),
        ("x-single-active-consumer", AMQPValue::Boolean(true)),
        ("x-overflow", text("reject-publish")),
    ])
}

fn park_arguments(destination: &str) -> FieldTable {
    let mut arguments = queue_arguments();
    arguments.insert("x-dead-letter-exchange".into(), text(&rescue(destination)));
    arguments.insert("x-dead-letter-strategy".into(), text("at-least-once"));
    arguments
}

fn table<const N: usize>(pairs: [(&str, AMQPValue); N]) -> FieldTable {
    let mut table = FieldTable::default();
    for (key, value) in pairs {
        table.insert(key.into(), value);
    }
    table
}

fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rescue_exchange_names_its_destination() {
        for destination in ["orders", "a.rescue", "xdelay", "", "a.b.c"] {
            assert_eq!(rescued_from(&rescue(destination)), Some(destination));
        }
        assert_eq!(rescued_from("orders"), None);
        assert_eq!(rescued_from(""), None);
    }

    #[test]
    fn what_receives_is_declared_before_what_sends() {
        for kind in [Front::Headers, Front::Topic] {
            let mut known: Vec<String> = vec![];
            for item in items("orders", kind) {
                match item {
                    Item::Exchange { name, .. } | Item::Queue { name, .. } => known.push(name),
                    Item::Binding { source, to, .. } => {
                        assert!(known.contains(&source) && known.contains(&to), "{source} {to}");
                    }
                }
            }
            assert_eq!(known.last(), Some(&"xdelay.orders".to_owned()));
        }
    }
}
