//! The model of `docs/scaling.md`: how many replicas, masters and gigabytes a load needs. What it is
//! fed with is measured; what it answers is held against a simulation.

mod model;
mod simulation;

use xdelay::delay::When;
use xdelay::store::Store;

use self::model::{LOADS, Load, Need, bytes_of, fullest_share};
use super::store_contract::{message, orders, park};
use super::support::redis::{PrivateRedis, connection, open, settings};

/// Measured with so many, since tables grow by doubling.
const MEASURED: usize = 60_000;

/// What stands on the page, so that it is what the code says.
fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/scaling.md");
    std::fs::read_to_string(path).expect("the page")
}

#[tokio::test]
async fn a_parked_message_takes_what_the_model_says() {
    for body in [100, 1_000] {
        let redis = PrivateRedis::start(&[]);
        let store = open(&settings(&redis.url()));
        let mut look = connection(&redis.url()).await;
        let mut used = async || {
            let info: String =
                redis::cmd("INFO").arg("memory").query_async(&mut look).await.expect("an answer");
            let line = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
            line.and_then(|bytes| bytes.trim().parse::<u64>().ok()).expect("it tells")
        };
        store.open(&orders()).await.expect("opened");
        let before = used().await;
        let text = "x".repeat(body);
        for first in (0..MEASURED).step_by(500) {
            let due = |n: usize| When::At(99_999_999_000_000 + n as u64);
            let batch: Vec<_> =
                (first..first + 500).map(|n| park(message(None, &text), due(n))).collect();
            let _ = store.park(&orders(), &batch).await.expect("parked");
        }
        let bytes = (used().await - before) as f64 / MEASURED as f64;
        println!(
            "a parked message of {body} bytes takes {bytes:.0}, the model says {}",
            bytes_of(body)
        );
        let ratio = bytes / bytes_of(body) as f64;
        assert!((0.8..1.05).contains(&ratio), "{bytes:.0} bytes, {ratio:.2} of the model's");
    }
}

#[test]
fn the_page_says_what_the_model_answers() {
    let page = page();
    for load in LOADS {
        let row = row(load, load.need());
        println!("{row}");
        assert!(page.contains(&row), "docs/scaling.md lacks\n{row}");
    }
    for (buckets, masters) in [(3, 3), (16, 3), (64, 3), (16, 8), (64, 8), (256, 8)] {
        let share = fullest_share(buckets, masters) * f64::from(masters);
        let row = format!("| {buckets} | {masters} | {share:.2} |");
        println!("{row}");
        assert!(page.contains(&row), "docs/scaling.md lacks\n{row}");
    }
}

fn row(load: &Load, need: Need) -> String {
    let Need { replicas, masters, buckets, gigabytes } = need;
    format!(
        "| {}/s | {} | {} B | {} s | {} s | {replicas} | {masters} | {buckets} | {gigabytes:.1} |",
        load.rate, load.backlog, load.body, load.outage_s, load.drained_within_s
    )
}

#[test]
fn what_the_model_answers_is_enough_and_much_less_is_not() {
    let mut too_few = 0;
    for load in LOADS {
        let need = load.need();
        let took = simulation::drain_s(load, need.masters, need.buckets);
        println!("{load:?}: {need:?} drains in {took:?} s");
        assert!(took.is_some_and(|took| took <= load.drained_within_s), "{load:?} takes {took:?}");
        // A third of the processors: no room at all is left of what the model leaves free.
        let third = load.faster(3);
        let took = simulation::drain_s(&third, need.masters, need.buckets);
        too_few += usize::from(took.is_none_or(|took| took > load.drained_within_s));
    }
    assert!(too_few > 0, "three times the load fits everywhere: the model asks for far too much");
}
