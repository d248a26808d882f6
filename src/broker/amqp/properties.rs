//! The fourteen basic properties, to and from their wire form.

use amq_protocol::frame::WriteContext;
use amq_protocol::protocol::basic::{gen_properties, parse_properties};
use bytes::Bytes;
use lapin::BasicProperties;

use crate::message::amqp::property_list::PropertyList;
use crate::message::amqp::table::{self, Malformed};

/// How deeply tables and arrays may be nested in what is decoded: the parser calls itself for each
/// level, without a bound, and what overflows the stack ends the process. Far above what anyone
/// nests on purpose, far below what a thread's stack holds.
const DEPTH_MAX: usize = 128;

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
/// When lapin could not carry it, such as a header name that is not UTF-8, or when it is nested
/// too deep.
pub(super) fn decode(bytes: &[u8]) -> Result<BasicProperties, String> {
    let unreadable = |why: String| format!("its properties cannot be read: {why}");
    let list = PropertyList::read(bytes).map_err(|Malformed| unreadable("they are none".into()))?;
    if table::is_deeper_than(DEPTH_MAX, list.headers()) {
        return Err(unreadable(format!("its headers nest deeper than {DEPTH_MAX} levels")));
    }
    match parse_properties(bytes) {
        Ok((_, properties)) => Ok(properties),
        Err(error) => Err(unreadable(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parser would end the process on these.
    #[test]
    fn what_is_nested_too_deep_is_not_decoded() {
        let arrays = (0..20_000_u32)
            .rev()
            .flat_map(|inner| [&[b'A'][..], &(inner * 5).to_be_bytes()].concat());
        let table = [&b"\x04deep"[..], &arrays.collect::<Vec<_>>()].concat();
        let length = u32::try_from(table.len()).expect("in range").to_be_bytes();
        let why = decode(&[&[0x20, 0][..], &length, &table].concat()).expect_err("refused");
        assert!(why.contains("128 levels"), "{why}");
    }
}
