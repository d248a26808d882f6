//! From a parked message to what is published: as it was sent, but for the few headers that tell
//! a consumer what happened to it.

use bytes::Bytes;

use crate::delay;
use crate::message::amqp::property_list::{Property, PropertyList};
use crate::message::amqp::table::{self, Malformed};
use crate::message::{AmqpContent, Content, Reason, Uid};
use crate::store::Lease;

/// Unique per parked message: what a consumer drops duplicates by, and what we know returned
/// messages by.
pub(super) const DELAYED_UID: &str = "x-delayed-uid";
const DELAYED_DUE: &str = "x-delayed-due";
const DELAYED_ID: &str = "x-delayed-id";
const DELAYED_USER_ID: &str = "x-delayed-user-id";

/// A consumer that copies headers into a retry must not replace or re-time by accident, nor pass
/// on what was said of the first message.
const DROPPED: [&str; 7] = [
    delay::DELIVER_AT,
    delay::DELAY_CANCEL,
    delay::DELAY_ID,
    DELAYED_UID,
    DELAYED_DUE,
    DELAYED_ID,
    DELAYED_USER_ID,
];

/// Room for what is added to the properties of a usual message.
const OURS_BYTES: usize = 192;

/// A message ready to be published.
pub(super) struct Outgoing {
    pub uid: Uid,
    pub routing_key: Bytes,
    /// Flags and list, as a content header carries them.
    pub properties: Vec<u8>,
    pub body: Bytes,
}

/// Prepares a leased message.
///
/// # Errors
/// Why it can never be published.
pub(super) fn outgoing(lease: &Lease) -> Result<Outgoing, Reason> {
    let undecodable = |why: &str| Reason::new("undecodable", why);
    let Content::Amqp(AmqpContent { routing_key, properties, body }) = &lease.message().content
    else {
        return Err(undecodable("it was not captured from RabbitMQ"));
    };
    if routing_key.len() > usize::from(u8::MAX) {
        return Err(undecodable("its routing key is longer than 255 bytes"));
    }
    let properties =
        mark(properties, lease).map_err(|Malformed| undecodable("its properties are none"))?;
    let uid = lease.message().uid.clone();
    Ok(Outgoing { uid, routing_key: routing_key.clone(), properties, body: body.clone() })
}

fn mark(sent: &[u8], lease: &Lease) -> Result<Vec<u8>, Malformed> {
    let list = PropertyList::read(sent)?;
    let mut marked = Vec::with_capacity(sent.len() + OURS_BYTES);
    // The broker would refuse a `user-id` from us.
    list.write(&mut marked, &[(Property::UserId, None)], |out| push_headers(out, &list, lease))?;
    Ok(marked)
}

fn push_headers(to: &mut Vec<u8>, sent: &PropertyList<'_>, lease: &Lease) -> Result<(), Malformed> {
    let (message, headers) = (lease.message(), sent.headers());
    for field in table::fields(headers) {
        let field = field?;
        let name = &headers[field.name.clone()];
        let is_replaced = message.delay_ms.is_some() && name == delay::DELAY.as_bytes();
        if !is_replaced && !DROPPED.iter().any(|dropped| name == dropped.as_bytes()) {
            to.extend_from_slice(&headers[field.whole()]);
        }
    }
    table::push_text(to, DELAYED_UID, message.uid.to_string().as_bytes());
    table::push_integer(to, DELAYED_DUE, i64::try_from(lease.due()).unwrap_or(i64::MAX));
    if let Some(id) = &message.id {
        table::push_text(to, DELAYED_ID, id.as_str().as_bytes());
    }
    if let Some(delay_ms) = message.delay_ms {
        push_negated(to, delay_ms);
    }
    if let Some(user) = sent.text(Property::UserId) {
        table::push_text(to, DELAYED_USER_ID, user);
    }
    Ok(())
}

/// At most -1, so that it is never delayed again. Of 32 bits where that is enough: pika reads
/// negative numbers of 64 bits as huge positive ones.
fn push_negated(to: &mut Vec<u8>, delay_ms: u64) {
    let delay_ms = delay_ms.max(1);
    match i32::try_from(delay_ms) {
        Ok(delay_ms) => table::push_small_integer(to, delay::DELAY, -delay_ms),
        Err(_) => {
            let delay_ms = i64::try_from(delay_ms).unwrap_or(i64::MAX);
            table::push_integer(to, delay::DELAY, -delay_ms);
        }
    }
}

/// The uid in the properties of a message that came back.
pub(super) fn uid_of(properties: &[u8]) -> Option<String> {
    let list = PropertyList::read(properties).ok()?;
    let headers = list.headers();
    let is_uid = |field: &table::Field| headers[field.name.clone()] == *DELAYED_UID.as_bytes();
    let uid = table::fields(headers).flatten().find(is_uid)?;
    let text = headers[uid.value].get(4..)?;
    Some(String::from_utf8_lossy(text).into_owned())
}
