//! How deeply the values of a header table are nested, found without recursion.
//!
//! The parser in amq-protocol calls itself for each level of tables and arrays, without a bound. A
//! message of a few kilobytes can hold a thousand levels, and overflowing the stack ends the whole
//! process; so the depth is looked at before that parser is let near it.

use amq_protocol::types::AMQPType;
use amq_protocol::types::parsing::{parse_long_uint, parse_short_string, parse_type, parse_value};

/// Far above what anyone nests on purpose, far below what a thread's stack holds.
pub(super) const DEPTH_MAX: usize = 128;

/// A table or array whose inside is being walked through.
struct Container {
    /// How many bytes are left of the whole when it is over.
    end: usize,
    named: bool,
}

/// Whether a table (its length first) goes deeper than [`DEPTH_MAX`].
///
/// What the parser would stop at ends the walk as well: it goes no deeper there.
pub(super) fn too_deep(table: &[u8]) -> bool {
    walk(table).unwrap_or(false)
}

/// `None` where the bytes are not what they should be.
fn walk(table: &[u8]) -> Option<bool> {
    let (mut rest, outermost) = enter(table, true)?;
    let mut open = vec![outermost];
    while let Some(inner) = open.last() {
        if rest.len() <= inner.end {
            open.pop();
            continue;
        }
        if inner.named {
            rest = parse_short_string(rest).ok()?.0;
        }
        let (value, kind) = parse_type(rest).ok()?;
        if !matches!(kind, AMQPType::FieldTable | AMQPType::FieldArray) {
            rest = parse_value(rest).ok()?.0;
            continue;
        }
        let (inside, container) = enter(value, kind == AMQPType::FieldTable)?;
        rest = inside;
        open.push(container);
        if open.len() > DEPTH_MAX {
            return Some(true);
        }
    }
    Some(false)
}

fn enter(bytes: &[u8], named: bool) -> Option<(&[u8], Container)> {
    let (inside, length) = parse_long_uint(bytes).ok()?;
    let end = inside.len().checked_sub(usize::try_from(length).ok()?)?;
    Some((inside, Container { end, named }))
}
