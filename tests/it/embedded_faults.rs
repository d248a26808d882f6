//! What the embedded store does when its file is held, cut, damaged, or left behind by a crash.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xdelay::delay::When;
use xdelay::store::embedded::EmbeddedStore;
use xdelay::store::{Entry, Error, Store};

use super::store_contract::{limit, message, orders, park};
use super::support::rabbit::{Rabbit, headers};
use super::support::sidecar::Sidecar;
use lapin::types::AMQPValue;

fn open(directory: &Path) -> Result<EmbeddedStore, Error> {
    EmbeddedStore::open(directory, Arc::default())
}

fn refusal(directory: &Path) -> String {
    match open(directory) {
        Err(error @ Error::Foreign(_)) => error.to_string(),
        Err(error) => panic!("another kind of error: {error}"),
        Ok(_) => panic!("it was opened"),
    }
}

fn file_in(directory: &Path) -> PathBuf {
    directory.join("xdelay.redb")
}

fn entries(count: usize) -> Vec<Entry> {
    (0..count).map(|n| park(message(None, &n.to_string()), When::At(1))).collect()
}

#[tokio::test]
async fn a_second_process_is_refused_and_the_first_goes_on() {
    let directory = tempfile::tempdir().expect("a directory");
    let first = open(directory.path()).expect("a new store");
    let refused = refusal(directory.path());
    assert!(refused.contains("in use by another process: one xdelay per store.path"), "{refused}");
    assert_eq!(first.park(&orders(), &entries(1)).await.expect("parked").entries.len(), 1);
}

#[tokio::test]
async fn what_is_no_store_is_refused_and_left_as_it_is() {
    let directory = tempfile::tempdir().expect("a directory");
    let rubbish = b"not a database, and somebody's only copy of it".repeat(1_000);
    fs::write(file_in(directory.path()), &rubbish).expect("written");
    let refused = refusal(directory.path());
    assert!(refused.contains("was not touched"), "{refused}");
    assert_eq!(fs::read(file_in(directory.path())).expect("read"), rubbish);
}

#[tokio::test]
async fn an_empty_file_is_not_taken_for_a_new_one() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(file_in(directory.path()), b"").expect("written");
    let refused = refusal(directory.path());
    assert!(refused.contains("it is empty"), "{refused}");
    assert_eq!(fs::read(file_in(directory.path())).expect("read"), b"");
}

#[tokio::test]
async fn a_newer_layout_is_refused_with_what_to_do() {
    let directory = tempfile::tempdir().expect("a directory");
    drop(open(directory.path()).expect("a new store"));
    let settings = redb::TableDefinition::<&str, &str>::new("settings");
    let database = redb::Database::create(file_in(directory.path())).expect("opened");
    let transaction = database.begin_write().expect("a transaction");
    transaction.open_table(settings).expect("a table").insert("layout", "2").expect("set");
    transaction.commit().expect("committed");
    drop(database);
    let refused = refusal(directory.path());
    assert!(refused.contains("written by a newer xdelay (layout 2"), "{refused}");
}

#[tokio::test]
async fn what_was_leased_when_the_process_ended_is_given_back_at_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path()).expect("a new store");
    let _ = store.park(&orders(), &entries(3)).await.expect("parked");
    let lost = store.claim(&orders(), limit(2)).await.expect("a claim");
    drop(store);
    let store = open(directory.path()).expect("opened again");
    let again = store.claim(&orders(), limit(10)).await.expect("a claim");
    assert_eq!((lost.leases.len(), again.leases.len()), (2, 3));
    let census = store.census(&orders()).await.expect("a census");
    assert_eq!((census.parked, census.leased), (0, 3));
}

/// A file as a killed process leaves it: copied while it is open, in the middle of parking.
async fn torn_file(directory: &Path) -> (Vec<u8>, usize) {
    let store = open(directory).expect("a new store");
    let mut parked = 0;
    for _ in 0..40 {
        parked += store.park(&orders(), &entries(25)).await.expect("parked").entries.len();
    }
    (fs::read(file_in(directory)).expect("read"), parked)
}

#[tokio::test]
async fn a_file_left_by_a_crash_has_every_acknowledged_park() {
    let directory = tempfile::tempdir().expect("a directory");
    let (bytes, parked) = torn_file(directory.path()).await;
    let after = tempfile::tempdir().expect("a directory");
    fs::write(file_in(after.path()), bytes).expect("written");
    let store = open(after.path()).expect("repaired");
    assert_eq!(store.census(&orders()).await.expect("a census").parked, parked as u64);
}

#[tokio::test]
async fn a_file_cut_anywhere_opens_whole_or_says_what_is_missing() {
    let directory = tempfile::tempdir().expect("a directory");
    let (bytes, parked) = torn_file(directory.path()).await;
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut whole, mut refused) = (0, 0);
    for turn in 0..60 {
        let mut cut = random.usize(1..bytes.len());
        if turn % 2 == 0 {
            // At the end of a page, which its length alone does not give away.
            cut = (cut / 4_096).max(1) * 4_096;
        }
        let after = tempfile::tempdir().expect("a directory");
        fs::write(file_in(after.path()), &bytes[..cut]).expect("written");
        match open(after.path()) {
            Ok(store) => {
                let mut found = 0;
                loop {
                    let claim = store.claim(&orders(), limit(500)).await.expect("readable");
                    found += claim.leases.len();
                    if claim.is_empty() {
                        break;
                    }
                }
                assert_eq!(found, parked, "opened, but not whole: cut at {cut} of {}", bytes.len());
                whole += 1;
            }
            Err(Error::Foreign(why)) => {
                assert!(why.contains("damaged") && why.contains("backup"), "{why}");
                let left = fs::read(file_in(after.path())).expect("read").len();
                assert_eq!(left, cut, "a refused file is left as it is");
                refused += 1;
            }
            Err(error) => panic!("cut at {cut}: {error}"),
        }
    }
    println!("{whole} opened whole, {refused} refused");
}

#[tokio::test]
async fn a_file_that_is_taken_away_or_replaced_is_not_written_to() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path()).expect("a new store");
    let _ = store.park(&orders(), &entries(1)).await.expect("parked");
    let (file, aside) = (file_in(directory.path()), directory.path().join("aside"));
    fs::rename(&file, &aside).expect("moved");
    let gone = store.park(&orders(), &entries(1)).await.expect_err("nothing to write to");
    assert!(gone.to_string().contains("could not write"), "{gone}");
    assert!(!file.exists(), "it is not made anew");
    fs::copy(&aside, &file).expect("copied");
    assert!(store.park(&orders(), &entries(1)).await.is_err(), "another file");
    fs::rename(&aside, &file).expect("put back");
    let _ = store.park(&orders(), &entries(1)).await.expect("parked");
    assert_eq!(store.census(&orders()).await.expect("a census").parked, 2);
}

#[tokio::test]
async fn the_sidecar_needs_no_redis_and_loses_nothing_when_killed() {
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let directory = tempfile::tempdir().expect("a directory");
    let mut sidecar = Sidecar::new(&[&orders]);
    sidecar.park_in(directory.path());
    sidecar.start().await;
    let mut inbox = rabbit.consume(&orders).await;
    let front = format!("xdelay.{orders}");
    let mut seen = std::collections::BTreeSet::new();
    for round in 0..3 {
        for n in 0..100 {
            let delay = headers([("x-delay", AMQPValue::LongInt(500))]);
            rabbit.publish(&front, delay, format!("{round}-{n}").as_bytes()).await;
        }
        sidecar.kill();
        sidecar.start().await;
    }
    while seen.len() < 300 {
        let got = inbox.next().await;
        seen.insert(String::from_utf8_lossy(&got.data).into_owned());
    }
    assert!(sidecar.stop().await, "it stops in order");
}
