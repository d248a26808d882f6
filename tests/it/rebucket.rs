//! `xdelay rebucket`: another number of buckets, whatever lies in them and whenever it is ended.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use xdelay::delay::When;
use xdelay::message::{Content, Destination, Reason};
use xdelay::store::redis::Settings;
use xdelay::store::{
    Author, Entry, Mark, Name, Postponed, Start, State, Steer, Steered, Step, Store,
};

use super::store_contract::{limit, message, orders, park, settle};
use super::support::a_while;
use super::support::redis::{keyspace, open, store_with};

const FAR: u64 = 99_999_999_999_000;

/// Spread over buckets by their ids and routing keys.
fn entries(range: std::ops::Range<u64>) -> Vec<Entry> {
    let entry = |n: u64| {
        let id = format!("id-{n}");
        let mut message = message(n.is_multiple_of(2).then_some(&id), &n.to_string());
        if let Content::Amqp(amqp) = &mut message.content {
            amqp.routing_key = Bytes::from(format!("key {n}"));
        }
        Entry::Park {
            message,
            when: When::At(FAR + n / 3),
            priority: (n % 5) as u8,
            by: Author::Producer,
        }
    };
    range.map(entry).collect()
}

/// All there is of a destination, by uid.
async fn lying(store: &dyn Steer, destination: &Destination) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for state in State::ALL {
        let mut start = Start::At(0);
        loop {
            let listing = store.list(destination, state, start, 100).await.expect("a listing");
            for it in &listing.seen {
                let what = format!(
                    "{state:?} {} {} {} {:?} {}",
                    it.at, it.due, it.attempts, it.reason, it.bytes
                );
                assert!(found.insert(it.uid.to_string(), what).is_none(), "{} twice", it.uid);
            }
            let Some(last) = listing.seen.last().filter(|_| listing.more) else { break };
            start = Start::After(last.place().clone());
        }
    }
    found
}

/// Parked, dead, tried before, marked, held back, ended by an operator.
async fn fill(store: &dyn Steer) {
    store.open(&orders()).await.expect("opened");
    store.open(&Destination::kafka("other")).await.expect("opened");
    store.set_mark(&orders(), 3, Mark { next: 7, life: 1, stamp: None }).await.expect("set");
    let due: Vec<_> = (0..40).map(|n| park(message(None, &n.to_string()), When::At(n))).collect();
    let _ = store.park(&orders(), &due).await.expect("parked");
    let mut claim = store.claim(&orders(), limit(40)).await.expect("a claim");
    let reason = Reason::new("unroutable", "nobody wants it");
    let mut tickets = claim.leases.drain(..).map(|lease| lease.into_ticket());
    let dead: Vec<_> = tickets.by_ref().take(20).map(|ticket| (ticket, reason.clone())).collect();
    let wait = Duration::from_secs(3_600);
    let postponed = |ticket| Postponed { ticket, wait, counts: true, reason: reason.clone() };
    let later: Vec<_> = tickets.map(postponed).collect();
    store.bury(&orders(), dead).await.expect("buried");
    store.postpone(&orders(), later).await.expect("postponed");
    let _ = store.park(&orders(), &entries(0..300)).await.expect("parked");
    let _ = store.park(&Destination::kafka("other"), &entries(300..340)).await.expect("parked");
    store.pause(&Destination::kafka("other"), true).await.expect("held back");
    let ended = message(Some("ended"), "body");
    let uid = ended.uid.clone();
    let _ = store.park(&orders(), &[park(ended, When::At(FAR))]).await.expect("parked");
    let found =
        store.find(&orders(), &Name::Uid(uid)).await.expect("an answer").expect("it is there");
    let steered = store.steer(&orders(), &Step::Cancel, &[found.seen.handle()]).await;
    assert_eq!(steered.expect("an answer"), [Steered::Cancelled]);
}

#[tokio::test]
async fn everything_moves_and_comes_back_as_it_was() {
    let (store, one) = store_with(1);
    fill(&*store).await;
    let before = lying(&*store, &orders()).await;
    let prefix = format!("{}:", one.namespace);
    let keys = keyspace(&one.url, &prefix).await;
    let four = Settings { buckets: 4, ..one.clone() };
    let spread = open(&four);
    let refused = spread.open(&orders()).await.expect_err("laid out otherwise").to_string();
    assert!(refused.contains("xdelay rebucket"), "{refused}");

    let done = spread.rebucket().await.expect("nothing is leased");
    assert_eq!((done.from, done.to), (1, 4));
    assert!(done.moved > 200, "three of four");
    spread.open(&orders()).await.expect("laid out for it");
    assert_eq!(lying(&*spread, &orders()).await, before);
    let mark = spread.mark(&orders(), 3).await.expect("a mark");
    assert_eq!(mark, Some(Mark { next: 7, life: 1, stamp: None }));
    let other = Destination::kafka("other");
    assert!(spread.census(&other).await.expect("a census").paused, "in every bucket");
    let again = spread.rebucket().await.expect("no harm");
    assert_eq!((again.from, again.moved), (4, 0));

    open(&one).rebucket().await.expect("and back");
    assert_eq!(keyspace(&one.url, &prefix).await, keys, "as if nothing had been");
}

#[tokio::test]
async fn a_message_that_was_moved_obeys_its_id() {
    let (store, one) = store_with(1);
    store.open(&orders()).await.expect("opened");
    let _ = store.park(&orders(), &entries(0..100)).await.expect("parked");
    let seven = open(&Settings { buckets: 7, ..one });
    seven.rebucket().await.expect("nothing is leased");
    let id =
        |n: u64| xdelay::message::ProducerId::new(format!("id-{n}").as_bytes()).expect("an id");
    let cancels: Vec<_> = (0..100)
        .step_by(2)
        .map(|n| Entry::Cancel { uid: xdelay::message::Uid::fresh(), id: id(n), user: None })
        .collect();
    let cancelled = seven.park(&orders(), &cancels).await.expect("an answer");
    let all = cancelled.entries.iter();
    assert!(all.map(|it| it.outcome).all(|it| it == xdelay::store::Outcome::Cancelled));
    assert_eq!(seven.census(&orders()).await.expect("a census").parked, 50);
}

#[tokio::test]
async fn what_is_being_released_is_waited_for() {
    let (store, one) = store_with(1);
    store.open(&orders()).await.expect("opened");
    let _ = store.park(&orders(), &[park(message(None, "a"), When::At(1))]).await.expect("parked");
    let claim = store.claim(&orders(), limit(1)).await.expect("a claim");
    let two = open(&Settings { buckets: 2, ..one });
    let refused = two.rebucket().await.expect_err("somebody works on it").to_string();
    assert!(refused.contains("stop every xdelay"), "{refused}");
    assert_eq!(settle(&*store, claim).await, 1);
    store.open(&orders()).await.expect("nothing has begun");
    two.rebucket().await.expect("now it can");
}

fn rebucket(settings: &Settings) -> Child {
    Command::new(env!("CARGO_BIN_EXE_xdelay"))
        .arg("rebucket")
        .args(["--set", &format!("redis.url={}", settings.url)])
        .args(["--set", &format!("redis.namespace={}", settings.namespace)])
        .args(["--set", &format!("redis.buckets={}", settings.buckets)])
        .args(["--set", "amqp.exchanges=orders"])
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts")
}

#[tokio::test]
async fn killed_in_the_middle_and_run_again_it_loses_and_doubles_nothing() {
    let (store, one) = store_with(1);
    store.open(&orders()).await.expect("opened");
    for first in (0..3_000).step_by(500) {
        let _ = store.park(&orders(), &entries(first..first + 500)).await.expect("parked");
    }
    let dead: Vec<_> =
        store.list(&orders(), State::Parked, Start::At(0), 100).await.expect("some").seen;
    let dead: Vec<_> = dead.iter().map(|seen| seen.handle()).collect();
    let reason = Reason::new("by hand", "a test");
    store.steer(&orders(), &Step::Bury(reason), &dead).await.expect("buried");
    let before = lying(&*store, &orders()).await;
    let five = Settings { buckets: 5, ..one.clone() };
    let spread = open(&five);
    let (mut kills, mut in_the_middle) = (0, 0);
    loop {
        let mut child = rebucket(&five);
        if kills < 12 {
            a_while(30..400).await;
            child.kill().expect("sent");
        }
        if child.wait().expect("it ended").success() {
            break;
        }
        assert!(kills < 12, "left alone it comes to its end");
        kills += 1;
        if let Err(refused) = store.open(&orders()).await
            && spread.open(&orders()).await.is_err()
        {
            in_the_middle += 1;
            assert!(refused.to_string().contains("xdelay rebucket"), "{refused}");
        }
    }
    println!("killed {kills} times, {in_the_middle} of them in the middle");
    spread.open(&orders()).await.expect("laid out for it");
    assert_eq!(lying(&*spread, &orders()).await, before);
}
