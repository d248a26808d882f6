//! Asks whether an exchange would take our messages, without sending one.
//!
//! A publish whose `expiration` is not a number is always refused, but only after the broker has
//! looked whether the exchange exists, whether we may write to it and whether it is internal. So
//! the kind of refusal is the answer, and nothing is ever routed.

use std::time::Instant;

use bytes::Bytes;

use super::connection::End;
use super::link::{ANSWER_WITHIN, Link};
use super::outgoing::Outgoing;
use super::publisher::Publisher;
use super::refusal::{Blame, blame, is_about_topic};
use crate::message::Uid;

/// The code that a bad property is refused with.
const PRECONDITION_FAILED: u16 = 406;
/// The flag of `expiration`, and a text that is no number of milliseconds.
const REFUSED: &[u8] = b"\x01\x00\x05probe";

/// # Errors
/// Why the exchange takes nothing from us.
pub(super) async fn probe(link: &Link<Publisher>, exchange: &str) -> Result<(), Blame> {
    if exchange.len() > usize::from(u8::MAX) {
        return Err(Blame::Destination("its name is longer than 255 bytes".into()));
    }
    let connection = link.connection().await.map_err(Blame::Connection)?;
    let channel = connection.channel().await.map_err(Blame::Connection)?;
    let message = Outgoing {
        uid: Uid::fresh(),
        routing_key: Bytes::new(),
        properties: REFUSED.to_vec(),
        body: Bytes::new(),
    };
    let heard = channel.publish(exchange, &[message], Instant::now() + ANSWER_WITHIN).await;
    match heard.end {
        None => Err(Blame::Connection("the broker confirmed a probe".into())),
        Some(End::Late) => Err(Blame::Connection("no answer to a probe in time".into())),
        Some(End::Lost(why)) => Err(Blame::Connection(why)),
        Some(End::Refused(refusal)) => {
            let is_only_the_probe =
                refusal.code == PRECONDITION_FAILED || is_about_topic(&refusal.text);
            match blame(&refusal) {
                _ if is_only_the_probe => Ok(()),
                Blame::Message(text) => Err(Blame::Destination(text)),
                other => Err(other),
            }
        }
    }
}
