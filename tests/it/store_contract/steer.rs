//! The promises of `Steer`: what an operator sees and changes.

use xdelay::delay::When;
use xdelay::message::{Destination, ProducerId, Reason, Uid};
use xdelay::store::{
    Author, Entry, Found, Handle, Listing, Name, Outcome, Place, Seen, Start, State, Steer,
    Steered, Step, Store, Ticket,
};

use super::{Stage, limit, message, orders, park};
use crate::support::redis::{connection, store_with};

promises! {
    what_is_listed_comes_in_order_and_page_by_page,
    a_listing_begins_where_it_is_told_to,
    a_message_is_found_by_either_name_with_all_that_is_in_it,
    a_cancelled_message_is_never_claimed_and_a_leased_one_says_so,
    what_an_operator_ended_is_not_parked_again_by_a_batch_sent_twice,
    a_dead_message_may_have_been_delivered,
    a_rescheduled_message_has_another_due,
    a_dead_message_is_revived_unless_another_has_its_id,
    a_parked_message_can_be_buried,
    what_is_leased_is_left_to_its_holder,
    attempts_counted_elsewhere_are_given_back,
    a_paused_destination_keeps_what_is_due,
    the_backlog_is_counted_until_any_instant,
}

const FAR: u64 = 99_999_999_999_000;

impl Stage {
    async fn parked(&self, id: Option<&str>, when: When) -> Uid {
        let message = message(id, "body");
        let uid = message.uid.clone();
        let parked = self.store.park(&orders(), &[park(message, when)]).await;
        let _ = parked.expect("parked");
        uid
    }

    async fn page(&self, state: State, start: Start, most: usize) -> Listing {
        self.store.list(&orders(), state, start, most).await.expect("a listing")
    }

    async fn find(&self, name: Name) -> Option<Found> {
        self.store.find(&orders(), &name).await.expect("an answer")
    }

    async fn handle(&self, uid: &Uid) -> Handle {
        self.find(Name::Uid(uid.clone())).await.expect("it is there").seen.handle()
    }

    async fn step(&self, step: Step, uid: &Uid) -> Steered {
        let handle = self.handle(uid).await;
        let steered = self.store.steer(&orders(), &step, &[handle]).await;
        steered.expect("an answer").remove(0)
    }

    async fn claimed(&self) -> Vec<Uid> {
        let claim = self.store.claim(&orders(), limit(50)).await.expect("a claim");
        claim.leases.iter().map(|lease| lease.message().uid.clone()).collect()
    }

    async fn bury_what_is_due(&self) {
        let claim = self.store.claim(&orders(), limit(50)).await.expect("a claim");
        let tickets: Vec<Ticket> = claim.leases.into_iter().map(|it| it.into_ticket()).collect();
        let reason = Reason::new("unroutable", "nobody wants it");
        let dead = tickets.into_iter().map(|ticket| (ticket, reason.clone())).collect();
        self.store.bury(&orders(), dead).await.expect("buried");
    }
}

fn uids(seen: &[Seen]) -> Vec<Uid> {
    seen.iter().map(|seen| seen.uid.clone()).collect()
}

async fn what_is_listed_comes_in_order_and_page_by_page(stage: Stage) {
    let mut expected = Vec::new();
    for n in 0..25 {
        // Five at a time share a due.
        expected.push(stage.parked(Some(&format!("id-{n}")), When::At(FAR + n / 5)).await);
    }
    let (mut found, mut start) = (Vec::new(), Start::At(0));
    loop {
        let listing = stage.page(State::Parked, start, 4).await;
        assert!(listing.seen.len() <= 4);
        found.extend(uids(&listing.seen));
        if !listing.more {
            break;
        }
        let last = listing.seen.last().expect("one at least").place().to_text();
        start = Start::After(Place::from_text(&last).expect("its own text"));
    }
    assert_eq!(found, expected);
    let seen = stage.page(State::Parked, Start::At(0), 1).await.seen.remove(0);
    assert_eq!((seen.due, seen.at, seen.attempts), (FAR, FAR, 0));
    let head = seen.head.expect("readable");
    assert_eq!(head.id, ProducerId::new(b"id-0"));
    assert_eq!(&*head.key, b"eu.1");
    for state in [State::Leased, State::Dead] {
        assert!(stage.page(state, Start::At(0), 9).await.seen.is_empty());
    }
}

async fn a_listing_begins_where_it_is_told_to(stage: Stage) {
    stage.parked(None, When::At(FAR)).await;
    let later = stage.parked(None, When::At(FAR + 1)).await;
    let listing = stage.page(State::Parked, Start::At(FAR + 1), 9).await;
    assert_eq!(uids(&listing.seen), [later]);
}

async fn a_message_is_found_by_either_name_with_all_that_is_in_it(stage: Stage) {
    let uid = stage.parked(Some("order-1"), When::AtOnce).await;
    stage.bury_what_is_due().await;
    for name in [Name::Uid(uid.clone()), Name::Id(ProducerId::new(b"order-1").expect("an id"))] {
        let found = stage.find(name).await.expect("it is there");
        assert_eq!((&found.seen.uid, found.seen.state), (&uid, State::Dead));
        assert_eq!(found.seen.reason.as_deref(), Some("nobody wants it"));
        assert_eq!(found.message.expect("readable").uid, uid);
    }
    assert!(stage.find(Name::Uid(Uid::fresh())).await.is_none());
    assert!(stage.find(Name::Id(ProducerId::new(b"2").expect("an id"))).await.is_none());
    let elsewhere = Destination::amqp("elsewhere");
    let found = stage.store.find(&elsewhere, &Name::Uid(uid)).await.expect("an answer");
    assert!(found.is_none());
}

async fn a_cancelled_message_is_never_claimed_and_a_leased_one_says_so(stage: Stage) {
    let parked = stage.parked(Some("a"), When::At(FAR)).await;
    let leased = stage.parked(Some("b"), When::AtOnce).await;
    assert_eq!(stage.claimed().await, std::slice::from_ref(&leased));
    let (parked_handle, leased_handle) = (stage.handle(&parked).await, stage.handle(&leased).await);
    assert_eq!(stage.step(Step::Cancel, &parked).await, Steered::Cancelled);
    assert_eq!(stage.step(Step::Cancel, &leased).await, Steered::CancelledLeased);
    let both = [parked_handle, leased_handle];
    let again = stage.store.steer(&orders(), &Step::Cancel, &both).await;
    assert_eq!(again.expect("an answer"), [Steered::Unknown, Steered::Unknown]);
    assert!(stage.find(Name::Id(ProducerId::new(b"a").expect("an id"))).await.is_none());
    let census = stage.store.census(&orders()).await.expect("a census");
    assert_eq!((census.parked, census.leased, census.dead), (0, 0, 0));
}

async fn what_an_operator_ended_is_not_parked_again_by_a_batch_sent_twice(stage: Stage) {
    let entry = |id| park(message(Some(id), "body"), When::AtOnce);
    let (plain, replaced, stays) = (entry("a"), entry("b"), entry("c"));
    let batch = [plain.clone(), replaced, stays.clone()];
    // Its answer is lost, and before it is sent again somebody is quicker.
    let _ = stage.store.park(&orders(), &batch).await.expect("parked");
    assert_eq!(stage.step(Step::Cancel, plain.uid()).await, Steered::Cancelled);
    let other = message(Some("b"), "another");
    let (by, when) = (Author::Operator, When::AtOnce);
    let other_uid = other.uid.clone();
    let other = Entry::Park { message: other, when, priority: 0, by };
    let _ = stage.store.park(&orders(), &[other]).await.expect("parked");
    let again = stage.other.park(&orders(), &batch).await.expect("an answer");
    let outcomes: Vec<_> = again.entries.iter().map(|it| it.outcome).collect();
    assert_eq!(outcomes, [Outcome::Known, Outcome::Known, Outcome::Known]);
    assert_eq!(sorted(stage.claimed().await), sorted(vec![other_uid, stays.uid().clone()]));
    // Who cancelled it may bring it back.
    let Entry::Park { message, .. } = plain else { unreachable!() };
    let by_hand = Entry::Park { message, when, priority: 0, by };
    let parked = stage.store.park(&orders(), &[by_hand]).await.expect("parked");
    assert!(matches!(parked.entries[0].outcome, Outcome::Parked(_)));
}

fn sorted(mut uids: Vec<Uid>) -> Vec<Uid> {
    uids.sort();
    uids
}

async fn a_dead_message_may_have_been_delivered(stage: Stage) {
    let uid = stage.parked(None, When::At(FAR)).await;
    stage.step(Step::Bury(Reason::new("operator", "no")), &uid).await;
    assert_eq!(stage.step(Step::Cancel, &uid).await, Steered::CancelledLeased);
}

async fn a_rescheduled_message_has_another_due(stage: Stage) {
    let uid = stage.parked(None, When::At(FAR)).await;
    let later = Step::Reschedule(When::At(FAR + 7));
    assert_eq!(stage.step(later, &uid).await, Steered::Rescheduled(FAR + 7));
    assert_eq!(stage.find(Name::Uid(uid.clone())).await.expect("there").seen.due, FAR + 7);
    assert!(stage.claimed().await.is_empty());
    let steered = stage.step(Step::Reschedule(When::AtOnce), &uid).await;
    assert!(matches!(steered, Steered::Rescheduled(due) if due < FAR), "{steered:?}");
    assert_eq!(stage.claimed().await, [uid]);
}

async fn a_dead_message_is_revived_unless_another_has_its_id(stage: Stage) {
    let old = stage.parked(Some("order-1"), When::AtOnce).await;
    stage.bury_what_is_due().await;
    let new = stage.parked(Some("order-1"), When::At(FAR)).await;
    assert_eq!(stage.step(Step::Revive(None), &old).await, Steered::IdTaken);
    assert_eq!(stage.step(Step::Revive(None), &new).await, Steered::IsParked);
    assert_eq!(stage.step(Step::Cancel, &new).await, Steered::Cancelled);
    assert_eq!(stage.step(Step::Revive(Some(When::At(FAR + 3))), &old).await, Steered::Revived);
    let found = stage.find(Name::Id(ProducerId::new(b"order-1").expect("an id"))).await;
    let seen = found.expect("it has its id again").seen;
    assert_eq!((seen.uid, seen.state), (old.clone(), State::Parked));
    assert_eq!((seen.due, seen.attempts), (FAR + 3, 0));
    // It may have gone out before it died.
    assert_eq!(stage.step(Step::Cancel, &old).await, Steered::CancelledLeased);
}

async fn a_parked_message_can_be_buried(stage: Stage) {
    let uid = stage.parked(None, When::At(FAR)).await;
    let reason = Reason::new("operator", "not before Monday");
    assert_eq!(stage.step(Step::Bury(reason.clone()), &uid).await, Steered::Buried);
    assert_eq!(stage.step(Step::Bury(reason), &uid).await, Steered::IsDead);
    let seen = stage.find(Name::Uid(uid.clone())).await.expect("there").seen;
    assert_eq!((seen.state, seen.reason.as_deref()), (State::Dead, Some("not before Monday")));
    assert_eq!(stage.step(Step::Reschedule(When::AtOnce), &uid).await, Steered::IsDead);
}

async fn what_is_leased_is_left_to_its_holder(stage: Stage) {
    let uid = stage.parked(None, When::AtOnce).await;
    assert_eq!(stage.claimed().await.len(), 1);
    let seen = stage.page(State::Leased, Start::At(0), 9).await.seen.remove(0);
    assert!(seen.at > seen.due, "its lease ends later");
    for step in [
        Step::Reschedule(When::AtOnce),
        Step::Revive(None),
        Step::Bury(Reason::new("operator", "no")),
    ] {
        assert_eq!(stage.step(step, &uid).await, Steered::IsLeased);
    }
}

async fn a_paused_destination_keeps_what_is_due(stage: Stage) {
    let uid = stage.parked(None, When::AtOnce).await;
    stage.store.pause(&orders(), true).await.expect("paused");
    let claim = stage.other.claim(&orders(), limit(5)).await.expect("a claim");
    assert!(claim.paused && claim.leases.is_empty());
    assert!(stage.store.census(&orders()).await.expect("a census").paused);
    stage.store.pause(&orders(), false).await.expect("resumed");
    assert_eq!(stage.claimed().await, [uid]);
}

async fn the_backlog_is_counted_until_any_instant(stage: Stage) {
    for due in [1_000, FAR, FAR, FAR + 60_000] {
        stage.parked(None, When::At(due)).await;
    }
    let until = [999, 1_000, FAR - 1, FAR, FAR + 60_000];
    let counts = stage.store.backlog(&orders(), &until).await.expect("counts");
    assert_eq!(counts, [0, 1, 1, 3, 4]);
}

/// A pause is written bucket by bucket: one that was cut off holds back only where it arrived.
#[tokio::test]
async fn what_a_half_paused_destination_hands_out_is_not_said_to_be_paused() {
    let (store, settings) = store_with(3);
    let batch: Vec<_> =
        (0..30).map(|n| park(message(Some(&n.to_string()), "body"), When::AtOnce)).collect();
    let _ = store.park(&orders(), &batch).await.expect("parked");
    store.pause(&orders(), true).await.expect("paused");
    let paused = store.claim(&orders(), limit(50)).await.expect("a claim");
    assert!(paused.paused && paused.is_empty());
    let mut redis = connection(&settings.url).await;
    let key = format!("{}:{{amqp:orders:1}}:paused", settings.namespace);
    let gone: i64 = ::redis::cmd("DEL").arg(key).query_async(&mut redis).await.expect("deleted");
    assert_eq!(gone, 1);
    let claim = store.claim(&orders(), limit(50)).await.expect("a claim");
    assert!(!claim.paused && !claim.leases.is_empty());
}

async fn attempts_counted_elsewhere_are_given_back(stage: Stage) {
    let (parked, dead) =
        (stage.parked(None, When::At(FAR)).await, stage.parked(None, When::At(FAR)).await);
    stage.step(Step::Bury(Reason::new("test", "a wrong price")), &dead).await;
    for (attempts, then) in [(3, 3), (3, 3), (2, 3), (5, 5)] {
        for uid in [&parked, &dead] {
            let handle = stage.handle(uid).await;
            let given = stage.store.restore(&orders(), &handle, attempts).await.expect("an answer");
            let seen = stage.find(Name::Uid(uid.clone())).await.expect("it is there").seen;
            assert_eq!((given, seen.attempts), (true, then), "{attempts}");
        }
    }
    let seen = stage.find(Name::Uid(dead.clone())).await.expect("it is there").seen;
    assert_eq!((seen.state, seen.reason.as_deref()), (State::Dead, Some("a wrong price")));
    // What was tried may have been delivered, and what is gone is given nothing.
    let gone = stage.handle(&parked).await;
    assert_eq!(stage.step(Step::Cancel, &parked).await, Steered::CancelledLeased);
    assert!(!stage.store.restore(&orders(), &gone, 9).await.expect("an answer"));
}
