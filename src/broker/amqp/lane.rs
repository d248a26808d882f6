//! The channel on which one destination's messages are published and confirmed.
//!
//! One batch at a time. A message counts as confirmed when it was acked and not returned; returned
//! messages are known by their own uid.

use std::time::Instant;

use super::connection::End;
use super::link::Link;
use super::outgoing::Outgoing;
use super::probe::probe;
use super::publisher::{Answer, Channel, Heard, Publisher};
use super::refusal::{Blame, blame};

/// One destination's publishing channel, opened when needed.
pub(super) struct Lane {
    exchange: String,
    channel: Option<Channel>,
}

/// What the broker said of one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// Confirmed, and not returned.
    Confirmed,
    /// Returned: no queue wanted it.
    Returned(String),
    /// Negatively acknowledged.
    Nacked,
    /// Nothing certain: it may or may not have arrived.
    Nothing,
}

/// What the broker said of a batch, and why it said no more, if it did not.
pub(super) struct Said {
    pub words: Vec<Word>,
    pub broken: Option<Blame>,
}

impl Lane {
    pub(super) fn new(exchange: &str) -> Self {
        Self { exchange: exchange.to_owned(), channel: None }
    }

    /// Opens the channel unless it is open. The exchange is tried first on a channel of its own:
    /// a publish to one that is missing would take the whole batch down with it.
    pub(super) async fn open(&mut self, link: &Link<Publisher>) -> Result<(), Blame> {
        if let Some(why) = link.why_blocked() {
            return Err(Blame::Connection(format!("the broker blocks publishing: {why}")));
        }
        if self.channel.as_ref().is_some_and(Channel::is_open) {
            return Ok(());
        }
        self.channel = None;
        probe(link, &self.exchange).await?;
        let connection = link.connection().await.map_err(Blame::Connection)?;
        self.channel = Some(connection.channel().await.map_err(Blame::Connection)?);
        Ok(())
    }

    /// Publishes a batch and waits for every confirm, at the latest until `deadline`.
    pub(super) async fn publish(&mut self, batch: &[Outgoing], deadline: Instant) -> Said {
        let Some(channel) = &self.channel else {
            let broken = Some(Blame::Connection("the channel is not open".into()));
            return Said { words: vec![Word::Nothing; batch.len()], broken };
        };
        let heard = channel.publish(&self.exchange, batch, deadline).await;
        if heard.end.is_some() {
            self.channel = None;
        }
        decide(heard, batch)
    }
}

fn decide(heard: Heard, batch: &[Outgoing]) -> Said {
    let Heard { answers, mut returned, end } = heard;
    let word = |answer| match answer {
        Some(Answer::Ack) => Word::Confirmed,
        Some(Answer::Nack) => Word::Nacked,
        None => Word::Nothing,
    };
    let mut words: Vec<Word> = answers.into_iter().map(word).collect();
    if !returned.is_empty() {
        for (message, word) in batch.iter().zip(&mut words) {
            if let Some(why) = returned.remove(&message.uid.to_string()) {
                *word = Word::Returned(why);
            }
        }
    }
    // One came back that cannot be told: any ack may have been its.
    if !returned.is_empty() {
        let acked = words.iter_mut().filter(|word| **word == Word::Confirmed);
        acked.for_each(|word| *word = Word::Nothing);
    }
    let broken = end.map(|end| match end {
        End::Refused(refusal) => blame(&refusal),
        End::Lost(why) => Blame::Connection(why),
        End::Late => Blame::Confirms("no confirm in time".to_owned()),
    });
    Said { words, broken }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use bytes::Bytes;

    use super::*;
    use crate::message::Uid;

    fn batch() -> Vec<Outgoing> {
        let message = |uid| Outgoing {
            uid: Uid::parse(&format!("{uid:032x}")).expect("a uid"),
            routing_key: Bytes::new(),
            properties: Vec::new(),
            body: Bytes::new(),
        };
        (1..=3).map(message).collect()
    }

    fn heard(answers: [Option<Answer>; 3], returned: &[String]) -> Heard {
        let why = || "312 NO_ROUTE".to_owned();
        let returned: HashMap<_, _> = returned.iter().map(|uid| (uid.clone(), why())).collect();
        Heard { answers: answers.into(), returned, end: None }
    }

    const ACK: Option<Answer> = Some(Answer::Ack);

    #[test]
    fn a_return_outweighs_the_ack_that_follows_it() {
        let returned = [batch()[1].uid.to_string()];
        let said = decide(heard([ACK; 3], &returned), &batch());
        let no_route = Word::Returned("312 NO_ROUTE".to_owned());
        assert_eq!(said.words, [Word::Confirmed, no_route, Word::Confirmed]);
        assert!(said.broken.is_none());
    }

    #[test]
    fn what_was_not_confirmed_is_not_taken_for_confirmed() {
        let said = decide(heard([ACK, Some(Answer::Nack), None], &[]), &batch());
        assert_eq!(said.words, [Word::Confirmed, Word::Nacked, Word::Nothing]);
    }

    #[test]
    fn when_a_stranger_comes_back_no_ack_is_certain() {
        let said = decide(heard([ACK, Some(Answer::Nack), ACK], &[String::new()]), &batch());
        assert_eq!(said.words, [Word::Nothing, Word::Nacked, Word::Nothing]);
    }

    #[test]
    fn a_batch_cut_short_keeps_what_was_confirmed_and_says_whose_fault_it_is() {
        let mut cut = heard([ACK, None, None], &[]);
        cut.end = Some(End::Late);
        let said = decide(cut, &batch());
        assert_eq!(said.words, [Word::Confirmed, Word::Nothing, Word::Nothing]);
        assert!(matches!(said.broken, Some(Blame::Confirms(_))));
    }
}
