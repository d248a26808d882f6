use proptest::prelude::*;

use super::*;

const NOW: UnixMs = 1_795_242_678_866;
const MAX: u64 = 315_360_000_000;

fn delay_of(value: Value<'_>) -> Result<Wish, Reason> {
    let headers = Headers { delay: Some(value), ..Headers::default() };
    read(&headers, NOW, MAX)
}

fn at_of(value: Value<'_>) -> Result<Wish, Reason> {
    let headers = Headers { deliver_at: Some(value), ..Headers::default() };
    read(&headers, NOW, MAX)
}

fn held(when: When) -> Result<Wish, Reason> {
    Ok(Wish::Hold(when, None))
}

#[test]
fn a_delay_is_a_number_in_any_of_its_spellings() {
    for value in [
        Value::Integer(300),
        Value::Float(300.0),
        Value::Float(299.2),
        Value::Text(b"300"),
        Value::Text(b"0300"),
    ] {
        assert_eq!(delay_of(value), held(When::In(300)), "{value:?}");
    }
}

#[test]
fn zero_negative_and_absent_are_not_delayed() {
    for value in [
        Value::Integer(0),
        Value::Integer(-5),
        Value::Float(-0.5),
        Value::Float(-1e300),
        Value::Text(b"-300"),
        Value::Text(b"-0"),
        Value::Text(b"-99999999999999999999999999999999999999999999"),
    ] {
        assert_eq!(delay_of(value), held(When::AtOnce), "{value:?}");
    }
    assert_eq!(read(&Headers::default(), NOW, MAX), held(When::AtOnce));
}

#[test]
fn what_is_not_a_number_is_refused_with_a_reason_that_shows_it() {
    for text in ["abc", "", "1.5", " 300", "300 ", "+300", "--3", "-", "0x10"] {
        let reason = delay_of(Value::Text(text.as_bytes())).expect_err(text);
        assert!(reason.as_str().contains(&format!("{text:?}")), "{reason}");
    }
    for value in [
        Value::Float(f64::NAN),
        Value::Float(f64::INFINITY),
        Value::Seconds(5),
        Value::Other("void"),
        Value::Other("table"),
        Value::Text(&[0xff]),
    ] {
        assert!(delay_of(value).is_err(), "{value:?}");
    }
}

#[test]
fn a_delay_beyond_the_longest_is_refused() {
    assert_eq!(delay_of(Value::Integer(MAX as i64)), held(When::In(MAX)));
    for value in [
        Value::Integer(MAX as i64 + 1),
        Value::Integer(i64::MAX),
        Value::Float(1e300),
        Value::Text(b"99999999999999999999999999999999999999999999"),
    ] {
        let reason = delay_of(value).expect_err("too far");
        assert!(reason.as_str().contains("delay.max"), "{reason}");
    }
}

#[test]
fn an_absolute_due_is_milliseconds_rfc_3339_or_a_timestamp() {
    for value in [
        Value::Integer(NOW as i64),
        Value::Text(b"1795242678866"),
        Value::Text(b"2026-11-21T06:31:18.866Z"),
        Value::Text(b"2026-11-21T07:31:18.866+01:00"),
        Value::Text(b"2026-11-21T06:31:18.865000001Z"),
    ] {
        assert_eq!(at_of(value), held(When::At(NOW)), "{value:?}");
    }
    assert_eq!(at_of(Value::Seconds(1_795_242_678)), held(When::At(1_795_242_678_000)));
    assert_eq!(at_of(Value::Integer(-1)), held(When::At(0)));
    for text in ["soon", "2026-13-01T00:00:00Z", "2026-11-21", ""] {
        assert!(at_of(Value::Text(text.as_bytes())).is_err(), "{text}");
    }
    assert!(at_of(Value::Integer((NOW + MAX + 1) as i64)).is_err());
    assert!(at_of(Value::Float(f64::NAN)).is_err());
}

#[test]
fn an_absolute_due_makes_the_delay_beside_it_not_count() {
    let headers = Headers {
        delay: Some(Value::Text(b"rubbish")),
        deliver_at: Some(Value::Integer(7)),
        ..Headers::default()
    };
    assert_eq!(read(&headers, NOW, MAX), held(When::At(7)));
}

#[test]
fn a_cancel_wins_over_all_else_and_needs_an_id() {
    let cancel = |value| Headers {
        cancel: Some(value),
        delay: Some(Value::Integer(5)),
        ..Headers::default()
    };
    let id = ProducerId::new(b"order-1").expect("an id");
    assert_eq!(read(&cancel(Value::Text(b"order-1")), NOW, MAX), Ok(Wish::Cancel(id)));
    for value in [Value::Text(b""), Value::Integer(1), Value::Text(&[0xff])] {
        assert!(read(&cancel(value), NOW, MAX).is_err());
    }
}

#[test]
fn a_bad_id_is_refused_and_a_good_one_is_carried() {
    let with_id =
        |id| Headers { id: Some(id), delay: Some(Value::Integer(5)), ..Headers::default() };
    assert!(read(&with_id(Value::Other("table")), NOW, MAX).is_err());
    assert!(read(&with_id(Value::Text(&[b'x'; 256])), NOW, MAX).is_err());
    let id = ProducerId::new(b"x");
    assert_eq!(read(&with_id(Value::Text(b"x")), NOW, MAX), Ok(Wish::Hold(When::In(5), id)));
}

proptest! {
    #[test]
    fn every_integer_reads_the_same_as_its_text(number: i64) {
        let text = number.to_string();
        prop_assert_eq!(
            delay_of(Value::Integer(number)).is_ok(),
            delay_of(Value::Text(text.as_bytes())).is_ok()
        );
        if let Ok(wish) = delay_of(Value::Integer(number)) {
            prop_assert_eq!(delay_of(Value::Text(text.as_bytes())), Ok(wish));
        }
    }

    #[test]
    fn a_float_is_never_rounded_to_an_earlier_due(number in 0.001_f64..1e11) {
        let Ok(Wish::Hold(When::In(ms), None)) = delay_of(Value::Float(number)) else {
            panic!("{number} is a delay");
        };
        prop_assert!(ms as f64 >= number && (ms as f64) < number + 1.0);
    }

    #[test]
    fn no_text_panics_and_none_is_read_as_a_delay_unless_it_is_digits(text: Vec<u8>) {
        let is_number = text.strip_prefix(b"-").unwrap_or(&text);
        let is_number = !is_number.is_empty() && is_number.iter().all(u8::is_ascii_digit);
        let wish = delay_of(Value::Text(&text));
        prop_assert!(is_number || wish.is_err());
        let _ = at_of(Value::Text(&text));
        prop_assert_eq!(ProducerId::new(&text).is_some(), matches!(
            read(&Headers { cancel: Some(Value::Text(&text)), ..Headers::default() }, NOW, MAX),
            Ok(Wish::Cancel(_))
        ));
    }
}
