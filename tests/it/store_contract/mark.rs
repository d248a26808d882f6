//! Marks: how far a log was parked.

use xdelay::store::{Mark, Origin, Stand};

use super::*;

fn mark(next: u64) -> Mark {
    Mark { life: 0, next, stamp: next.checked_sub(1).map(|at| at as i64) }
}

/// A record of log 3, read right after the one before it.
fn read(at: u64, when: When) -> (Entry, Origin) {
    let uid = Uid::parse(&format!("orders/3/{at}")).expect("printable");
    let entry = park(Message { uid, ..message(None, &at.to_string()) }, when);
    (entry, Origin { log: 3, life: 0, from: at, at, stamp: Some(at as i64) })
}

async fn park_stretch(
    store: &dyn Store,
    stretch: std::ops::Range<u64>,
    when: When,
) -> Result<Vec<Outcome>, Error> {
    let (batch, origins): (Vec<_>, Vec<_>) = stretch.map(|at| read(at, when)).unzip();
    store.park_read(&orders(), &batch, &origins).await.map(|parkings| outcomes(&parkings))
}

fn moved_to(refused: Result<Vec<Outcome>, Error>) -> Option<Mark> {
    match refused {
        Err(Error::Moved(stands)) => {
            let [Stand { log: 3, mark }] = stands[..] else { panic!("{stands:?}") };
            mark
        }
        other => panic!("{other:?}"),
    }
}

pub async fn a_mark_moves_with_what_is_parked_and_is_seen_by_all(stage: Stage) {
    let store = &*stage.store;
    assert_eq!(store.mark(&orders(), 3).await.expect("none"), None);
    store.set_mark(&orders(), 3, mark(5)).await.expect("set");
    let parked = park_stretch(store, 5..8, When::At(1)).await.expect("parked");
    assert_eq!(parked, [Outcome::Parked(1); 3]);
    assert_eq!(stage.other.mark(&orders(), 3).await.expect("a mark"), Some(mark(8)));
    assert_eq!(store.mark(&orders(), 4).await.expect("none"), None, "each log has its own");
}

pub async fn what_is_read_again_is_parked_no_second_time_even_after_its_release(stage: Stage) {
    let store = &*stage.store;
    store.set_mark(&orders(), 3, mark(0)).await.expect("set");
    park_stretch(store, 0..4, When::At(1)).await.expect("parked");
    let claim = store.claim(&orders(), limit(10)).await.expect("a claim");
    assert_eq!(settle(store, claim).await, 4);
    // The same batch after a lost answer, the same records in other batches, and some new ones.
    for stretch in [0..4, 2..3, 0..6, 5..7] {
        let again = park_stretch(store, stretch.clone(), When::At(1)).await.expect("parked");
        assert_eq!(again.len() as u64, stretch.end - stretch.start);
        assert!(again[..again.len().min(1)].iter().all(|outcome| *outcome == Outcome::Known));
    }
    assert_eq!(store.mark(&orders(), 3).await.expect("a mark"), Some(mark(7)));
    let claim = store.claim(&orders(), limit(10)).await.expect("a claim");
    assert_eq!(bodies(&claim), ["4", "5", "6"], "each once");
}

pub async fn a_reader_ahead_of_the_mark_is_refused_whole_and_told_where_it_is(stage: Stage) {
    let store = &*stage.store;
    assert_eq!(moved_to(park_stretch(store, 0..2, When::At(1)).await), None);
    store.set_mark(&orders(), 3, mark(2)).await.expect("set");
    assert_eq!(moved_to(park_stretch(store, 3..5, When::At(1)).await), Some(mark(2)));
    let other_life = Mark { life: 1, ..mark(3) };
    store.set_mark(&orders(), 3, other_life).await.expect("set");
    assert_eq!(moved_to(park_stretch(store, 3..5, When::At(1)).await), Some(other_life));
    let census = store.census(&orders()).await.expect("a census");
    assert_eq!(census.parked, 0, "nothing of a refused batch is parked");
}

/// One bucket may have parked what another has not: a crash came between their answers.
#[tokio::test]
async fn buckets_that_differ_are_each_completed() {
    let (store, settings) = store_with(4);
    store.open(&orders()).await.expect("opened");
    store.set_mark(&orders(), 3, mark(0)).await.expect("set");
    park_keyed(&*store, 0..40).await;
    // One bucket loses all it has but its mark, which goes back to the beginning.
    let mut redis = connection(&settings.url).await;
    let key = |part: &str| format!("{}:{{amqp:orders:2}}:{part}", settings.namespace);
    for part in ["due", "msg"] {
        let _: () = ::redis::cmd("DEL").arg(key(part)).query_async(&mut redis).await.expect("gone");
    }
    let mut set = ::redis::cmd("HSET");
    set.arg(key("mark")).arg(3).arg("0 0 -");
    let _: () = set.query_async(&mut redis).await.expect("set");
    let lost = 40 - store.census(&orders()).await.expect("a census").parked;
    assert!(lost > 0, "the bucket had its share");
    assert_eq!(store.mark(&orders(), 3).await.expect("a mark").map(|mark| mark.next), Some(0));
    let again = park_keyed(&*store, 0..40).await;
    let parked = again.iter().filter(|outcome| **outcome == Outcome::Parked(1)).count();
    assert_eq!(parked as u64, lost, "the others know theirs");
    assert_eq!(store.census(&orders()).await.expect("a census").parked, 40);
    assert_eq!(store.mark(&orders(), 3).await.expect("a mark"), Some(mark(40)));
}

/// Spread over buckets by routing key.
async fn park_keyed(store: &dyn Store, stretch: std::ops::Range<u64>) -> Vec<Outcome> {
    let (batch, origins): (Vec<_>, Vec<_>) = stretch
        .map(|at| {
            let (mut entry, origin) = read(at, When::At(1));
            if let Entry::Park { message, .. } = &mut entry
                && let Content::Amqp(amqp) = &mut message.content
            {
                amqp.routing_key = Bytes::from(format!("key {at}"));
            }
            (entry, origin)
        })
        .unzip();
    outcomes(&store.park_read(&orders(), &batch, &origins).await.expect("parked"))
}
