//! Field tables, walked without being decoded.

use std::ops::Range;

use crate::delay::Value;

/// One field: where its name and its value lie in the bytes that were walked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: Range<usize>,
    /// The type, one letter.
    pub(crate) kind: u8,
    /// The value, without its type.
    pub(crate) value: Range<usize>,
}

impl Field {
    /// All of the field: the length of its name comes first, in one byte.
    pub(crate) fn whole(&self) -> Range<usize> {
        self.name.start - 1..self.value.end
    }
}

/// The fields of a table without its length, in order. Ends with an `Err` where the bytes are none.
pub(crate) fn fields(bytes: &[u8]) -> impl Iterator<Item = Result<Field, Malformed>> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at == bytes.len() {
            return None;
        }
        let field = field(bytes, at);
        at = field.as_ref().map_or(bytes.len(), |field| field.value.end);
        Some(field.ok_or(Malformed))
    })
}

/// Bytes that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

fn field(bytes: &[u8], at: usize) -> Option<Field> {
    let name_at = at + 1;
    let kind_at = name_at + usize::from(*bytes.get(at)?);
    let kind = *bytes.get(kind_at)?;
    let value_at = kind_at + 1;
    let end = value_at.checked_add(length(kind, bytes.get(value_at..)?)?)?;
    (end <= bytes.len()).then_some(Field { name: name_at..kind_at, kind, value: value_at..end })
}

/// Bytes of a value of this type, its own length included.
fn length(kind: u8, value: &[u8]) -> Option<usize> {
    Some(match kind {
        b'V' => 0,
        b't' | b'b' | b'B' => 1,
        b's' | b'u' | b'U' => 2,
        b'I' | b'i' | b'f' => 4,
        b'D' => 5,
        b'l' | b'L' | b'd' | b'T' => 8,
        b'S' | b'x' | b'A' | b'F' => {
            let length = value.first_chunk()?;
            4 + usize::try_from(u32::from_be_bytes(*length)).ok()?
        }
        _ => return None,
    })
}

/// A value as a delay may be read from it, in the types that the capture knows too.
pub(crate) fn value(kind: u8, bytes: &[u8]) -> Value<'_> {
    read(kind, bytes).unwrap_or(Value::Other("unknown"))
}

fn read(kind: u8, bytes: &[u8]) -> Option<Value<'_>> {
    let four = || bytes.first_chunk::<4>().copied();
    let eight = || bytes.first_chunk::<8>().copied();
    let two = || bytes.first_chunk::<2>().copied();
    Some(match kind {
        b'b' => Value::Integer(i64::from(i8::from_be_bytes([*bytes.first()?]))),
        b'B' => Value::Integer(i64::from(*bytes.first()?)),
        b's' | b'U' => Value::Integer(i64::from(i16::from_be_bytes(two()?))),
        b'u' => Value::Integer(i64::from(u16::from_be_bytes(two()?))),
        b'I' => Value::Integer(i64::from(i32::from_be_bytes(four()?))),
        b'i' => Value::Integer(i64::from(u32::from_be_bytes(four()?))),
        b'l' | b'L' => Value::Integer(i64::from_be_bytes(eight()?)),
        b'f' => Value::Float(f64::from(f32::from_be_bytes(four()?))),
        b'd' => Value::Float(f64::from_be_bytes(eight()?)),
        b'S' | b'x' => Value::Text(bytes.get(4..)?),
        b'T' => Value::Seconds(u64::from_be_bytes(eight()?)),
        b't' => Value::Other("boolean"),
        b'D' => Value::Other("decimal"),
        b'A' => Value::Other("array"),
        b'F' => Value::Other("table"),
        b'V' => Value::Other("void"),
        _ => return None,
    })
}

/// Whether the inside of an array is texts and nothing else.
pub(crate) fn is_texts(array: &[u8]) -> bool {
    elements(array).all(|element| matches!(element, Ok((b'S', _))))
}

/// The text of a value that is one, be it UTF-8 or not.
pub(crate) fn text(kind: u8, value: &[u8]) -> Option<&[u8]> {
    value.get(4..).filter(|_| kind == b'S')
}

/// One value of an array: its type, and where it lies without it.
pub(crate) type Element = (u8, Range<usize>);

/// The values in the inside of an array, in order. Ends with an `Err` where the bytes are none.
pub(crate) fn elements(array: &[u8]) -> impl Iterator<Item = Result<Element, Malformed>> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let kind = *array.get(at)?;
        let from = at + 1;
        let end = length(kind, &array[from..]).and_then(|length| from.checked_add(length));
        let end = end.filter(|end| *end <= array.len());
        at = end.unwrap_or(array.len());
        Some(end.map(|end| (kind, from..end)).ok_or(Malformed))
    })
}

/// The last field of this name in a table without its length, if there is one: its type, and its
/// value without it.
pub(crate) fn last_of<'a>(table: &'a [u8], name: &str) -> Option<(u8, &'a [u8])> {
    let is_it = |field: &Field| table[field.name.clone()] == *name.as_bytes();
    let found = fields(table).flatten().filter(is_it).last()?;
    Some((found.kind, &table[found.value]))
}

/// Whether tables and arrays lie within each other in more levels than these, the table itself
/// being the first. Found without recursion: one frame can hold 26 000 levels.
pub(crate) fn is_deeper_than(levels: usize, table: &[u8]) -> bool {
    let mut level = vec![(b'F', table)];
    for _ in 0..levels {
        level = level.into_iter().flat_map(|(kind, inside)| within(kind, inside)).collect();
        if level.is_empty() {
            return false;
        }
    }
    true
}

/// The tables and arrays that stand in one, each with its kind, as far as they can be read.
fn within(kind: u8, inside: &[u8]) -> Vec<(u8, &[u8])> {
    let places: Vec<Element> = match kind {
        b'F' => fields(inside).flatten().map(|field| (field.kind, field.value)).collect(),
        _ => elements(inside).flatten().collect(),
    };
    let nests = |kind: &u8| matches!(kind, b'F' | b'A');
    let nested = places.into_iter().filter(|(kind, _)| nests(kind));
    nested.map(|(kind, place)| (kind, &inside[place][4..])).collect()
}

/// Appends a field whose value is text.
pub(crate) fn push_text(to: &mut Vec<u8>, name: &str, text: &[u8]) {
    push_name(to, name);
    to.push(b'S');
    to.extend_from_slice(&(text.len() as u32).to_be_bytes());
    to.extend_from_slice(text);
}

/// Appends a field whose value is an integer of 64 bits.
pub(crate) fn push_integer(to: &mut Vec<u8>, name: &str, integer: i64) {
    push_name(to, name);
    to.push(b'l');
    to.extend_from_slice(&integer.to_be_bytes());
}

/// Appends a field whose value is an integer of 32 bits.
pub(crate) fn push_small_integer(to: &mut Vec<u8>, name: &str, integer: i32) {
    push_name(to, name);
    to.push(b'I');
    to.extend_from_slice(&integer.to_be_bytes());
}

/// Appends the name of a field. Ours are all short.
pub(crate) fn push_name(to: &mut Vec<u8>, name: &str) {
    to.push(name.len() as u8);
    to.extend_from_slice(name.as_bytes());
}

#[cfg(test)]
mod tests {
    use amq_protocol::frame::WriteContext;
    use amq_protocol::types::generation::gen_field_table;
    use amq_protocol::types::{AMQPValue, DecimalValue, FieldArray, FieldTable};

    use super::*;

    fn written(pairs: &[(&str, AMQPValue)]) -> Vec<u8> {
        let mut table = FieldTable::default();
        for (name, value) in pairs {
            table.insert((*name).into(), value.clone());
        }
        let context = gen_field_table(&table)(WriteContext::from(Vec::new())).unwrap();
        context.into_inner().0.split_off(4)
    }

    /// One value of each type.
    fn each() -> Vec<(AMQPValue, Value<'static>)> {
        let array = FieldArray::from(vec![AMQPValue::Void]);
        let decimal = DecimalValue { scale: 1, value: 2 };
        vec![
            (AMQPValue::Boolean(true), Value::Other("boolean")),
            (AMQPValue::ShortShortInt(-8), Value::Integer(-8)),
            (AMQPValue::ShortShortUInt(200), Value::Integer(200)),
            (AMQPValue::ShortInt(-1_600), Value::Integer(-1_600)),
            (AMQPValue::ShortUInt(60_000), Value::Integer(60_000)),
            (AMQPValue::LongInt(-320_000), Value::Integer(-320_000)),
            (AMQPValue::LongUInt(4_000_000_000), Value::Integer(4_000_000_000)),
            (AMQPValue::LongLongInt(-9_000_000_000), Value::Integer(-9_000_000_000)),
            (AMQPValue::Float(1.5), Value::Float(1.5)),
            (AMQPValue::Double(-2.25), Value::Float(-2.25)),
            (AMQPValue::DecimalValue(decimal), Value::Other("decimal")),
            (AMQPValue::LongString("300".into()), Value::Text(b"300")),
            (AMQPValue::ByteArray(vec![0, 255].into()), Value::Text(&[0, 255])),
            (AMQPValue::Timestamp(1_700_000_000), Value::Seconds(1_700_000_000)),
            (AMQPValue::Void, Value::Other("void")),
            (AMQPValue::FieldArray(array), Value::Other("array")),
            (AMQPValue::FieldTable(FieldTable::default()), Value::Other("table")),
        ]
    }

    #[test]
    fn every_type_is_read_as_a_capture_reads_it() {
        for (sent, expected) in each() {
            let bytes = written(&[("a", sent.clone()), ("b", AMQPValue::LongInt(1))]);
            let found: Vec<_> = fields(&bytes).map(|field| field.unwrap()).collect();
            assert_eq!(found.len(), 2, "{sent:?}");
            let Field { name, kind, value: range } = found[0].clone();
            assert_eq!((&bytes[name], value(kind, &bytes[range])), (&b"a"[..], expected));
        }
    }

    #[test]
    fn bytes_that_are_no_table_end_with_an_error() {
        let whole = written(&[("name", AMQPValue::LongString("value".into()))]);
        for cut in 1..whole.len() {
            assert!(fields(&whole[..cut]).any(|field| field.is_err()), "{cut}");
        }
        assert!(fields(b"\x01a?").any(|field| field.is_err()), "an unknown type");
        assert!(fields(b"\x01aS\xff\xff\xff\xff").any(|field| field.is_err()), "too long");
    }

    #[test]
    fn the_values_of_an_array_are_found_and_its_end() {
        let found: Vec<_> = elements(b"VS\0\0\0\x01aI\0\0\0\x07").collect();
        assert_eq!(found, [Ok((b'V', 1..1)), Ok((b'S', 2..7)), Ok((b'I', 8..12))]);
        for wrong in [&b"?"[..], b"S\0\0", b"S\0\0\0\x02a", b"I\0\0\0"] {
            assert_eq!(elements(wrong).collect::<Vec<_>>(), [Err(Malformed)], "{wrong:?}");
        }
    }

    #[test]
    fn of_several_fields_the_last_one_counts() {
        let table = b"\x01at\0\x01bV\x01at\x01";
        assert_eq!(last_of(table, "a"), Some((b't', &b"\x01"[..])));
        assert_eq!(last_of(table, "c"), None);
    }

    /// A table that holds an array or table that has so many others within each other.
    fn nested(levels: usize, kind: u8) -> Vec<u8> {
        let name: &[u8] = if kind == b'F' { b"\x01n" } else { b"" };
        let around = |inner: Vec<u8>| {
            let inside = [name, &inner].concat();
            [&[kind][..], &(inside.len() as u32).to_be_bytes(), &inside].concat()
        };
        let value = (0..levels).fold(vec![kind, 0, 0, 0, 0], |inner, _| around(inner));
        [b"\x01n", &value[..]].concat()
    }

    #[test]
    fn deep_nesting_is_found_without_following_it() {
        for kind in [b'A', b'F'] {
            for (levels, deep) in [(0, false), (126, false), (127, true), (5_000, true)] {
                let found = is_deeper_than(128, &nested(levels, kind));
                assert_eq!(found, deep, "{levels}");
            }
        }
        let side_by_side = b"\x01nA\0\0\0\0".repeat(5_000);
        assert!(!is_deeper_than(2, &side_by_side));
    }

    #[test]
    fn texts_are_told_from_other_arrays() {
        assert!(is_texts(b""));
        assert!(is_texts(b"S\0\0\0\x01aS\0\0\0\0"));
        assert!(!is_texts(b"S\0\0\0\x01aV"));
        assert!(!is_texts(b"S\0\0\0\x02a"));
    }
}
