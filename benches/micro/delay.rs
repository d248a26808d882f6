//! Reading what a producer asked for.

use std::hint::black_box;

use criterion::Criterion;
use xdelay::delay::{Headers, Value, read};

const NOW: u64 = 1_700_000_000_000;
const MAX_MS: u64 = 10 * 365 * 86_400_000;

pub(crate) fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("delay");
    let delay = |value| Headers { delay: Some(value), ..Headers::default() };
    let at = |value| Headers { deliver_at: Some(value), ..Headers::default() };
    let cases = [
        ("number", delay(Value::Integer(5_000))),
        ("text", delay(Value::Text(b"5000"))),
        ("float", delay(Value::Float(4_999.5))),
        ("rfc 3339", at(Value::Text(b"2023-11-14T22:13:25.5+01:00"))),
        ("refused", delay(Value::Text(b"soon"))),
    ];
    for (name, headers) in cases {
        group.bench_function(name, |bencher| {
            bencher.iter(|| read(black_box(&headers), NOW, MAX_MS));
        });
    }
    group.finish();
}
