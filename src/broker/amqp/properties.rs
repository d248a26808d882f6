//! The fourteen basic properties: to and from their wire form, and changed where lapin has no
//! method for it.

use std::collections::BTreeMap;

use amq_protocol::frame::WriteContext;
use amq_protocol::protocol::basic::{gen_properties, parse_properties};
use bytes::Bytes;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, ShortString};

/// Room for the properties of a usual message, so that writing them need not grow.
const USUAL_BYTES: usize = 256;

/// Property flags and list, as a content header frame carries them.
pub(super) fn encode(properties: &BasicProperties) -> Bytes {
    match gen_properties(properties)(WriteContext::from(Vec::with_capacity(USUAL_BYTES))) {
        Ok(written) => written.into_inner().0.into(),
        Err(error) => unreachable!("a vector takes whatever is written to it: {error}"),
    }
}

/// Reads what [`encode`] wrote, or what came over the wire.
///
/// # Errors
/// When lapin could not carry it, such as a header name that is not UTF-8.
pub(super) fn decode(bytes: &[u8]) -> Result<BasicProperties, String> {
    match parse_properties(bytes) {
        Ok((_, properties)) => Ok(properties),
        Err(error) => Err(format!("its properties cannot be read: {error}")),
    }
}

/// The same with other headers; none at all when there are none.
pub(super) fn with_headers(
    properties: BasicProperties,
    headers: BTreeMap<ShortString, AMQPValue>,
) -> BasicProperties {
    if !headers.is_empty() {
        return properties.with_headers(headers.into());
    }
    let copied = copy(&properties);
    match properties.user_id() {
        Some(user) => copied.with_user_id(user.clone()),
        None => copied,
    }
}

/// All but headers and `user-id`. lapin can set a property but not clear one.
fn copy(from: &BasicProperties) -> BasicProperties {
    let mut to = BasicProperties::default();
    macro_rules! carry {
        ($($get:ident => $set:ident),*) => {
            $(if let Some(value) = from.$get() {
                to = to.$set(value.clone());
            })*
        };
    }
    carry!(
        content_type => with_content_type,
        content_encoding => with_content_encoding,
        delivery_mode => with_delivery_mode,
        priority => with_priority,
        correlation_id => with_correlation_id,
        reply_to => with_reply_to,
        expiration => with_expiration,
        message_id => with_message_id,
        timestamp => with_timestamp,
        kind => with_type,
        app_id => with_app_id,
        cluster_id => with_cluster_id
    );
    to
}
