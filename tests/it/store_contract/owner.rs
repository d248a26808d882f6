//! Who may change a parked message: what carries a `user-id` obeys the same `user-id` alone.

use bytes::{BufMut, Bytes};
use xdelay::delay::When;
use xdelay::message::{Content, Message, ProducerId, Uid};
use xdelay::store::{Author, Entry, Name, Outcome, State, Steered, Step};

use super::{Stage, limit, message, orders, outcomes, park};
use crate::support::body;

promises! {
    what_carries_a_user_id_is_replaced_by_the_same_alone,
    what_carries_a_user_id_is_cancelled_by_the_same_alone,
    what_carries_none_may_be_changed_by_all,
    an_operator_replaces_whoevers_message_it_is,
    a_refused_replacement_is_kept_with_its_due_and_can_be_revived,
    a_leased_message_and_one_of_the_same_batch_are_as_safe,
    a_dead_message_leaves_its_id_to_whoever_comes_but_is_not_cancelled,
    a_priority_survives_a_death,
}

const FAR: u64 = 99_999_999_999_000;

/// Property flags and list with these; `user-id` is the last of those used here.
fn properties(priority: Option<u8>, user: Option<&str>) -> Bytes {
    let mut out = Vec::new();
    let flags = [(priority.is_some(), 0x0800), (user.is_some(), 0x0010)];
    out.put_u16(0xa000 | flags.iter().filter(|(is, _)| *is).map(|(_, flag)| flag).sum::<u16>());
    // A content type and an empty table of headers before them.
    out.put_slice(b"\x0atext/plain\0\0\0\0");
    out.extend(priority);
    if let Some(user) = user {
        out.put_u8(u8::try_from(user.len()).expect("short"));
        out.put_slice(user.as_bytes());
    }
    out.into()
}

fn of(user: Option<&str>, body: &str) -> Message {
    let mut message = message(Some("order-1"), body);
    let Content::Amqp(amqp) = &mut message.content else { panic!("AMQP") };
    amqp.properties = properties(Some(3), user);
    message
}

fn later(user: Option<&str>, body: &str) -> Entry {
    park(of(user, body), When::At(FAR))
}

fn cancel(user: Option<&str>) -> Entry {
    let id = ProducerId::new(b"order-1").expect("an id");
    let user = user.map(|user| Bytes::copy_from_slice(user.as_bytes()));
    Entry::Cancel { uid: Uid::fresh(), id, user }
}

impl Stage {
    async fn apply(&self, batch: &[Entry]) -> Vec<Outcome> {
        outcomes(&self.store.park(&orders(), batch).await.expect("an answer"))
    }

    /// The body of what is parked under the id, and how many are parked and dead.
    async fn holds(&self) -> (String, u64, u64) {
        let id = ProducerId::new(b"order-1").expect("an id");
        let found = self.store.find(&orders(), &Name::Id(id)).await.expect("an answer");
        let found = found.expect("it is there").message.expect("readable");
        let census = self.store.census(&orders()).await.expect("a census");
        (body(&found.content), census.parked, census.dead)
    }
}

async fn what_carries_a_user_id_is_replaced_by_the_same_alone(stage: Stage) {
    let batch = [later(Some("alice"), "hers")];
    assert_eq!(stage.apply(&batch).await, [Outcome::Parked(FAR)]);
    for (dead, stranger) in
        [Some("bob"), None, Some("alic"), Some("alice2")].into_iter().enumerate()
    {
        assert_eq!(stage.apply(&[later(stranger, "not hers")]).await, [Outcome::NotYours]);
        assert_eq!(stage.holds().await, ("hers".into(), 1, dead as u64 + 1), "{stranger:?}");
    }
    let again = [later(Some("alice"), "hers again")];
    assert_eq!(stage.apply(&again).await, [Outcome::Replaced(FAR)]);
    assert_eq!(stage.apply(&again).await, [Outcome::Known]);
    assert_eq!(stage.holds().await, ("hers again".into(), 1, 4));
}

async fn what_carries_a_user_id_is_cancelled_by_the_same_alone(stage: Stage) {
    stage.apply(&[later(Some("alice"), "hers")]).await;
    let strangers = [cancel(Some("bob")), cancel(None)];
    assert_eq!(stage.apply(&strangers).await, [Outcome::NotYours, Outcome::NotYours]);
    assert_eq!(stage.holds().await, ("hers".into(), 1, 0));
    let twice = [cancel(Some("alice")), cancel(Some("alice"))];
    assert_eq!(stage.apply(&twice).await, [Outcome::Cancelled, Outcome::UnknownId]);
}

async fn what_carries_none_may_be_changed_by_all(stage: Stage) {
    stage.apply(&[later(None, "nobody's")]).await;
    let replaced = stage.apply(&[later(Some("alice"), "hers now")]).await;
    assert_eq!(replaced, [Outcome::Replaced(FAR)]);
    assert_eq!(stage.apply(&[cancel(None)]).await, [Outcome::NotYours]);
    stage.apply(&[cancel(Some("alice")), later(None, "nobody's")]).await;
    assert_eq!(stage.apply(&[cancel(Some("bob"))]).await, [Outcome::Cancelled]);
}

async fn an_operator_replaces_whoevers_message_it_is(stage: Stage) {
    stage.apply(&[later(Some("alice"), "hers")]).await;
    let by = Author::Operator;
    let message = of(None, "an operator's");
    let entry = Entry::Park { message, when: When::At(FAR), priority: 0, by };
    assert_eq!(stage.apply(&[entry]).await, [Outcome::Replaced(FAR)]);
    assert_eq!(stage.holds().await, ("an operator's".into(), 1, 0));
}

async fn a_refused_replacement_is_kept_with_its_due_and_can_be_revived(stage: Stage) {
    let refused = of(Some("bob"), "his");
    let uid = refused.uid.clone();
    stage.apply(&[later(Some("alice"), "hers"), park(refused, When::At(FAR + 7))]).await;
    let found = stage.store.find(&orders(), &Name::Uid(uid)).await.expect("an answer");
    let seen = found.expect("it is kept").seen;
    assert_eq!((seen.state, seen.due), (State::Dead, FAR + 7));
    assert!(seen.reason.as_deref().is_some_and(|why| why.contains("another user-id")), "{seen:?}");
    let revive = async || {
        let steered = stage.store.steer(&orders(), &Step::Revive(None), &[seen.handle()]).await;
        steered.expect("an answer").remove(0)
    };
    assert_eq!(revive().await, Steered::IdTaken);
    stage.apply(&[cancel(Some("alice"))]).await;
    assert_eq!(revive().await, Steered::Revived);
    assert_eq!(stage.holds().await, ("his".into(), 1, 0));
    assert_eq!(stage.apply(&[cancel(Some("alice"))]).await, [Outcome::NotYours]);
}

async fn a_leased_message_and_one_of_the_same_batch_are_as_safe(stage: Stage) {
    let now = park(of(Some("alice"), "hers"), When::AtOnce);
    let batch = [now, later(Some("bob"), "his"), cancel(None)];
    assert_eq!(stage.apply(&batch).await[1..], [Outcome::NotYours, Outcome::NotYours]);
    let claim = stage.store.claim(&orders(), limit(5)).await.expect("a claim");
    assert_eq!(claim.leases.len(), 1);
    assert_eq!(stage.apply(&[cancel(Some("bob"))]).await, [Outcome::NotYours]);
    assert_eq!(stage.apply(&[later(None, "his")]).await, [Outcome::NotYours]);
    assert_eq!(super::settle(&*stage.store, claim).await, 1, "its lease was left alone");
}

async fn a_dead_message_leaves_its_id_to_whoever_comes_but_is_not_cancelled(stage: Stage) {
    let hers = of(Some("alice"), "hers");
    let uid = hers.uid.clone();
    stage.apply(&[park(hers, When::At(FAR))]).await;
    let found = stage.store.find(&orders(), &Name::Uid(uid)).await.expect("an answer");
    let handle = found.expect("it is there").seen.handle();
    let bury = Step::Bury(xdelay::message::Reason::new("operator", "no"));
    stage.store.steer(&orders(), &bury, &[handle]).await.expect("buried");
    assert_eq!(stage.apply(&[cancel(Some("bob"))]).await, [Outcome::NotYours]);
    assert_eq!(stage.apply(&[later(Some("bob"), "his")]).await, [Outcome::Parked(FAR)]);
    assert_eq!(stage.holds().await, ("his".into(), 1, 1));
}

async fn a_priority_survives_a_death(stage: Stage) {
    let mut names = Vec::new();
    for priority in [0, 9, 3] {
        let mut message = message(None, &priority.to_string());
        let Content::Amqp(amqp) = &mut message.content else { panic!("AMQP") };
        amqp.properties = properties((priority > 0).then_some(priority), Some("alice"));
        names.push(Name::Uid(message.uid.clone()));
        let by = Author::Producer;
        stage.apply(&[Entry::Park { message, when: When::At(FAR), priority, by }]).await;
    }
    for step in [
        Step::Bury(xdelay::message::Reason::new("operator", "no")),
        Step::Revive(Some(When::At(1_000))),
    ] {
        for name in &names {
            let found = stage.store.find(&orders(), name).await.expect("an answer");
            let handle = found.expect("it is there").seen.handle();
            stage.store.steer(&orders(), &step, &[handle]).await.expect("an answer");
        }
    }
    let claim = stage.store.claim(&orders(), limit(5)).await.expect("a claim");
    assert_eq!(super::bodies(&claim), ["9", "3", "0"]);
}
