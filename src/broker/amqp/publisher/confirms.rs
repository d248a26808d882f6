//! What was heard of the batch on its way.

use std::collections::HashMap;

use crate::broker::amqp::connection::End;

/// What the broker says of a message it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Answer {
    Ack,
    Nack,
}

/// Answers to one batch after another.
///
/// Delivery tags count up from one with every message published on a channel, and one answer may
/// be for all messages up to its tag.
#[derive(Debug, Default)]
pub(super) struct Confirms {
    /// The tag of the batch's first message.
    first: u64,
    /// How many messages were published in all, this batch included.
    published: u64,
    answers: Vec<Option<Answer>>,
    /// All before this one are answered.
    unbroken: usize,
    missing: usize,
    returned: HashMap<String, String>,
}

/// All that was heard of a batch.
#[derive(Debug, Default)]
pub(in super::super) struct Heard {
    /// In the order of publishing.
    pub(in super::super) answers: Vec<Option<Answer>>,
    /// Those that no queue wanted, by uid, with the broker's reason.
    pub(in super::super) returned: HashMap<String, String>,
    /// Why no more was heard.
    pub(in super::super) end: Option<End>,
}

impl Confirms {
    /// The next batch, all of which is published or else the channel given up.
    pub(super) fn begin(&mut self, messages: usize) {
        *self = Self {
            first: self.published + 1,
            published: self.published + messages as u64,
            answers: vec![None; messages],
            missing: messages,
            ..Self::default()
        };
    }

    /// An answer came. What is said of an earlier batch, or again, changes nothing.
    pub(super) fn answered(&mut self, tag: u64, multiple: bool, answer: Answer) {
        let place = match (tag, multiple) {
            (0, true) => self.answers.len().checked_sub(1),
            _ => tag.checked_sub(self.first).and_then(|place| usize::try_from(place).ok()),
        };
        let Some(place) = place.filter(|place| *place < self.answers.len()) else {
            return;
        };
        let from = if multiple { self.unbroken.min(place) } else { place };
        for answered in &mut self.answers[from..=place] {
            if answered.is_none() {
                *answered = Some(answer);
                self.missing -= 1;
            }
        }
        while self.answers.get(self.unbroken).is_some_and(Option::is_some) {
            self.unbroken += 1;
        }
    }

    /// A message came back.
    pub(super) fn returned(&mut self, uid: String, why: String) {
        self.returned.insert(uid, why);
    }

    pub(super) fn are_complete(&self) -> bool {
        self.missing == 0
    }

    /// Hands over what was heard; what is said of this batch from now on changes nothing.
    pub(super) fn take(&mut self, end: Option<End>) -> Heard {
        let Self { answers, returned, .. } = self;
        Heard { answers: std::mem::take(answers), returned: std::mem::take(returned), end }
    }
}

#[cfg(test)]
mod tests {
    use super::Answer::{Ack, Nack};
    use super::*;

    fn batch(messages: usize) -> Confirms {
        let mut confirms = Confirms::default();
        confirms.begin(messages);
        confirms
    }

    #[test]
    fn one_answer_may_be_for_many() {
        let mut confirms = batch(5);
        confirms.answered(2, false, Nack);
        confirms.answered(4, true, Ack);
        assert!(!confirms.are_complete());
        assert_eq!(confirms.answers, [Some(Ack), Some(Nack), Some(Ack), Some(Ack), None]);
        confirms.answered(5, false, Ack);
        assert!(confirms.are_complete());
    }

    #[test]
    fn tags_go_on_from_batch_to_batch() {
        let mut confirms = batch(3);
        confirms.answered(3, true, Ack);
        assert!(confirms.are_complete());
        confirms.begin(2);
        confirms.answered(3, true, Nack);
        assert_eq!(confirms.answers, [None, None], "of the batch before");
        confirms.answered(4, false, Ack);
        confirms.answered(0, true, Nack);
        assert_eq!(confirms.answers, [Some(Ack), Some(Nack)]);
    }

    #[test]
    fn an_answer_that_is_none_of_ours_changes_nothing() {
        let mut confirms = batch(1);
        confirms.answered(7, false, Ack);
        assert_eq!(confirms.answers, [None]);
        confirms.answered(1, false, Ack);
        confirms.answered(1, false, Nack);
        assert_eq!(confirms.answers, [Some(Ack)]);
    }
}
