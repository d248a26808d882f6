//! The fourteen basic properties, to and from their wire form.

use amq_protocol::frame::WriteContext;
use amq_protocol::protocol::basic::{gen_properties, parse_properties};
use bytes::Bytes;
use lapin::BasicProperties;

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
