//! Puts the capture topology in place, or looks whether it stands.
//!
//! Declaring what stands already is how RabbitMQ compares: an existing queue with other
//! arguments is refused with 406, and the finding then says what mends it. Each step has a
//! channel of its own, since a refusal closes it.

use futures_util::future::try_join_all;
use lapin::options::{
    ExchangeBindOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{FieldTable, ShortString};
use lapin::{Channel, ExchangeKind};

use super::client::answer;
use super::link::Link;
use super::topology::{self, Item};
use crate::config::Front;
use crate::finding::Finding;

/// Whether missing things are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Make what is missing.
    Declare,
    /// Only look, but for bindings, which cannot be looked at: they are made where they lack.
    Look,
}

/// Declares or looks at everything that captures for `destination`; answers what is wrong.
pub(super) async fn capture(
    link: &Link,
    destination: &str,
    front: Front,
    mode: Mode,
) -> Result<(), Finding> {
    let items = topology::items(destination, front);
    if mode == Mode::Declare && all_at_once(link, &items).await.is_ok() {
        return Ok(());
    }
    for item in items {
        look_at(link, &item, mode)
            .await
            .map_err(|why| Finding::bad(format!("capture of {destination}"), why))?;
    }
    Ok(())
}

/// Declares one item, or looks whether it stands; says what mends it.
async fn look_at(link: &Link, item: &Item, mode: Mode) -> Result<(), String> {
    let refused = |why: &str| why.contains("ACCESS_REFUSED");
    if mode == Mode::Look && !matches!(item, Item::Binding { .. }) {
        one(link, item, true).await.map_err(|why| missing(item, &why))?;
    }
    match (one(link, item, false).await, item) {
        (Ok(()), _) => Ok(()),
        // A client sees bindings only by making them, which changes nothing where they stand.
        (Err(why), Item::Binding { .. }) if mode == Mode::Look && refused(&why) => {
            Err(unseen(item, &why))
        }
        // Without the right to configure, that it stands is all that can be seen.
        (Err(why), _) if mode == Mode::Look && refused(&why) => Ok(()),
        (Err(why), _) => Err(mend(item, &why)),
    }
}

/// Declares everything in one go, without waiting in between: a front exchange that stands but is
/// not bound yet would let a delayed message through undelayed.
async fn all_at_once(link: &Link, items: &[Item]) -> Result<(), String> {
    let channel = link.channel().await?;
    try_join_all(items.iter().map(|item| declare(&channel, item, false))).await?;
    answer("closing a channel", channel.close(200, "done".into())).await
}

/// Declares the mark of a destination.
pub(super) async fn mark(link: &Link, destination: &str) -> Result<(), String> {
    one(link, &topology::mark(destination), false).await
}

/// Whether a destination is marked.
pub(super) async fn is_marked(link: &Link, destination: &str) -> bool {
    one(link, &topology::mark(destination), true).await.is_ok()
}

/// Whether an exchange of this name stands.
pub(super) async fn exists(link: &Link, exchange: &str) -> bool {
    let passive = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
    let looking = async {
        let channel = link.channel().await?;
        let kind = ExchangeKind::Direct;
        let declare =
            channel.exchange_declare(name_of(exchange)?, kind, passive, FieldTable::default());
        answer("exchange.declare", declare).await?;
        answer("closing a channel", channel.close(200, "done".into())).await
    };
    looking.await.is_ok()
}

async fn one(link: &Link, item: &Item, passive: bool) -> Result<(), String> {
    let channel = link.channel().await?;
    declare(&channel, item, passive).await?;
    answer("closing a channel", channel.close(200, "done".into())).await
}

async fn declare(channel: &Channel, item: &Item, passive: bool) -> Result<(), String> {
    match item {
        Item::Exchange { name, kind, internal, arguments } => {
            let options = ExchangeDeclareOptions {
                passive,
                durable: true,
                internal: *internal,
                ..ExchangeDeclareOptions::default()
            };
            let declare =
                channel.exchange_declare(name_of(name)?, kind.clone(), options, arguments.clone());
            answer("exchange.declare", declare).await
        }
        Item::Queue { name, arguments } => {
            let options =
                QueueDeclareOptions { passive, durable: true, ..QueueDeclareOptions::default() };
            let declare = channel.queue_declare(name_of(name)?, options, arguments.clone());
            answer("queue.declare", declare).await.map(drop)
        }
        Item::Binding { source, to, to_exchange, routing_key, arguments } => {
            let (source, to) = (name_of(source)?, name_of(to)?);
            let (key, arguments) = (ShortString::from(*routing_key), arguments.clone());
            if *to_exchange {
                let options = ExchangeBindOptions::default();
                answer("exchange.bind", channel.exchange_bind(to, source, key, options, arguments))
                    .await
            } else {
                let options = QueueBindOptions::default();
                answer("queue.bind", channel.queue_bind(to, source, key, options, arguments)).await
            }
        }
    }
}

fn name_of(name: &str) -> Result<ShortString, String> {
    ShortString::try_new(name).map_err(|_| format!("`{name}` is longer than 255 bytes"))
}

fn missing(item: &Item, why: &str) -> String {
    let what = describe(item);
    format!(
        "{what} is not there; run the commands of `xdelay topology`, or set amqp.declare = true ({why})"
    )
}

fn unseen(item: &Item, why: &str) -> String {
    let what = describe(item);
    format!(
        "whether {what} stands cannot be seen ({why}), and without it messages pass undelayed: \
         grant the rights that `xdelay topology` prints"
    )
}

/// What is wrong, and the command that mends it.
fn mend(item: &Item, why: &str) -> String {
    let what = describe(item);
    if why.contains("PRECONDITION_FAILED") || why.contains("inequivalent") {
        let command = match item {
            Item::Queue { name, .. } => {
                format!(
                    "stop its producers, let it run empty, then `rabbitmqctl delete_queue {name} --if-empty`"
                )
            }
            Item::Exchange { name, .. } => {
                format!("`rabbitmqadmin delete exchange name={name}`")
            }
            Item::Binding { .. } => "see `xdelay topology`".to_owned(),
        };
        return format!(
            "{what} stands, but otherwise than is safe ({why}); to mend it: {command}, and xdelay declares it anew"
        );
    }
    if why.contains("ACCESS_REFUSED") {
        return format!(
            "{what} cannot be declared ({why}); grant the rights that `xdelay topology` prints, or run its commands and set amqp.declare = false"
        );
    }
    format!("{what}: {why}")
}

fn describe(item: &Item) -> String {
    match item {
        Item::Exchange { name, .. } => format!("exchange `{name}`"),
        Item::Queue { name, .. } => format!("queue `{name}`"),
        Item::Binding { source, to, .. } => format!("the binding of `{source}` to `{to}`"),
    }
}
