//! The channel on which one destination's messages are published and confirmed.
//!
//! One batch at a time. lapin hands a returned message to whichever confirm completes next, so a
//! return says nothing of the confirm it came with: all confirms of a batch are awaited, the
//! returned messages are known by their own uid, and only then is anything decided. When the
//! channel dies in the middle, what was confirmed counts only if nothing at all was returned.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::ShortString;
use lapin::{Channel, Confirmation, Error};
use tokio::time::timeout_at;

use super::link::{Link, answer};
use super::outgoing::{Outgoing, uid_of};
use super::probe::probe;
use super::refusal::{Blame, blame};
use crate::crash::{self, Point};

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
    pub(super) async fn open(&mut self, link: &Link) -> Result<(), Blame> {
        if let Some(why) = link.why_blocked() {
            return Err(Blame::Connection(format!("the broker blocks publishing: {why}")));
        }
        if self.channel.as_ref().is_some_and(|channel| channel.status().connected()) {
            return Ok(());
        }
        self.channel = None;
        if ShortString::try_new(self.exchange.as_str()).is_err() {
            return Err(Blame::Destination("its name is longer than 255 bytes".into()));
        }
        probe(link, &self.exchange).await?;
        let channel = link.channel().await.map_err(Blame::Connection)?;
        let select = channel.confirm_select(ConfirmSelectOptions::default());
        answer("confirm.select", select).await.map_err(Blame::Connection)?;
        self.channel = Some(channel);
        Ok(())
    }

    /// Publishes a batch and waits for every confirm, at the latest until `deadline`.
    pub(super) async fn publish(&mut self, batch: Vec<Outgoing>, deadline: Instant) -> Said {
        let uids: Vec<String> = batch.iter().map(|message| message.uid.clone()).collect();
        let Some(channel) = self.channel.clone() else {
            let broken = Some(Blame::Connection("the channel is not open".into()));
            return Said { words: vec![Word::Nothing; batch.len()], broken };
        };
        let heard = listen(&channel, &self.exchange, batch, deadline).await;
        if heard.broken.is_some() {
            self.discard().await;
        }
        heard.decide(&uids)
    }

    /// Late confirms and returns of a broken batch must not mix with the next one's.
    async fn discard(&mut self) {
        if let Some(channel) = self.channel.take()
            && channel.status().connected()
        {
            let close = channel.close(200, "a batch was not confirmed".into());
            let _ = tokio::time::timeout(Duration::from_millis(500), close).await;
        }
    }
}

/// Publishes a batch, whole publish-and-confirm futures at once, in order, and hears it out.
async fn listen(
    channel: &Channel,
    exchange: &str,
    batch: Vec<Outgoing>,
    deadline: Instant,
) -> Heard {
    let mut heard = Heard::new(batch.len());
    let mut confirms: FuturesUnordered<_> = batch
        .into_iter()
        .enumerate()
        .map(|(place, message)| async move { (place, publish(channel, exchange, message).await) })
        .collect();
    loop {
        match timeout_at(deadline.into(), confirms.next()).await {
            Ok(Some((place, answer))) => heard.take(place, answer),
            Ok(None) => return heard,
            Err(_) => {
                let late = "no confirm in time".to_owned();
                heard.broken.get_or_insert(Blame::Confirms(late));
                // What has come in already counts, and may carry another message's return.
                while let Some(Some((place, answer))) = confirms.next().now_or_never() {
                    heard.take(place, answer);
                }
                return heard;
            }
        }
    }
}

async fn publish(
    channel: &Channel,
    exchange: &str,
    message: Outgoing,
) -> Result<Confirmation, Error> {
    let options = BasicPublishOptions { mandatory: true, immediate: false };
    let publish = channel.basic_publish(
        exchange.into(),
        message.routing_key,
        options,
        &message.body,
        message.properties,
    );
    let confirm = publish.await?;
    crash::pass(Point::PublishedUnconfirmed);
    confirm.await
}

/// What was heard of a batch so far.
struct Heard {
    answers: Vec<Option<Answer>>,
    /// By uid, with the broker's reason.
    returned: HashMap<String, String>,
    broken: Option<Blame>,
}

#[derive(Clone, Copy)]
enum Answer {
    Ack,
    Nack,
}

impl Heard {
    fn new(messages: usize) -> Self {
        Self { answers: vec![None; messages], returned: HashMap::new(), broken: None }
    }

    fn take(&mut self, place: usize, answer: Result<Confirmation, Error>) {
        let (answer, returned) = match answer {
            Ok(Confirmation::Ack(returned)) => (Answer::Ack, returned),
            Ok(Confirmation::Nack(returned)) => (Answer::Nack, returned),
            Ok(Confirmation::NotRequested) => {
                self.broken = Some(Blame::Connection("the channel does not confirm".into()));
                return;
            }
            Err(error) => {
                self.broken.get_or_insert_with(|| blame(&error));
                return;
            }
        };
        self.answers[place] = Some(answer);
        if let Some(returned) = returned {
            let uid = uid_of(&returned.delivery.properties).unwrap_or_default();
            let why = format!("{} {}", returned.reply_code, returned.reply_text);
            self.returned.insert(uid, why);
        }
    }

    fn decide(self, uids: &[String]) -> Said {
        // A returned message completes some confirm with a return, its own or another's. So when
        // a batch is cut short, acks are certain as long as no return was seen at all.
        let acks_certain = self.broken.is_none() || self.returned.is_empty();
        debug_assert!(self.returned.keys().all(|uid| uids.contains(uid)));
        let words = uids.iter().zip(&self.answers).map(|(uid, answer)| {
            match (self.returned.get(uid), answer) {
                (Some(why), _) => Word::Returned(why.clone()),
                (None, Some(Answer::Ack)) if acks_certain => Word::Confirmed,
                (None, Some(Answer::Nack)) => Word::Nacked,
                (None, _) => Word::Nothing,
            }
        });
        Said { words: words.collect(), broken: self.broken }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use lapin::BasicProperties;
    use lapin::message::{BasicReturnMessage, Delivery};
    use lapin::types::AMQPValue;

    use super::*;
    use crate::broker::amqp::outgoing::DELAYED_UID;

    /// The message of this uid, as the broker returns it.
    fn returned(uid: &str) -> BasicReturnMessage {
        let mut delivery = Delivery::mock(0, "orders".into(), "bad".into(), false, Vec::new());
        let uid = AMQPValue::LongString(uid.into());
        let headers = BTreeMap::from([(DELAYED_UID.into(), uid)]);
        delivery.properties = BasicProperties::default().with_headers(headers.into());
        BasicReturnMessage { delivery, reply_code: 312, reply_text: "NO_ROUTE".into() }
    }

    fn uids() -> Vec<String> {
        ["a", "b", "c"].map(str::to_owned).into()
    }

    fn no_route() -> Word {
        Word::Returned("312 NO_ROUTE".to_owned())
    }

    #[test]
    fn a_return_is_its_own_messages_whatever_confirm_it_came_with() {
        let mut heard = Heard::new(3);
        heard.take(0, Ok(Confirmation::Ack(Some(returned("b")))));
        heard.take(2, Ok(Confirmation::Ack(None)));
        heard.take(1, Ok(Confirmation::Ack(None)));
        let said = heard.decide(&uids());
        assert_eq!(said.words, [Word::Confirmed, no_route(), Word::Confirmed]);
        assert!(said.broken.is_none());
    }

    #[test]
    fn what_was_not_confirmed_is_not_taken_for_confirmed() {
        let mut heard = Heard::new(3);
        heard.take(0, Ok(Confirmation::Ack(None)));
        heard.take(1, Ok(Confirmation::Nack(None)));
        let said = heard.decide(&uids());
        assert_eq!(said.words, [Word::Confirmed, Word::Nacked, Word::Nothing]);
    }

    #[test]
    fn in_a_batch_cut_short_acks_count_only_without_any_return() {
        let cut_short = || {
            let mut heard = Heard::new(3);
            heard.broken = Some(Blame::Confirms("late".to_owned()));
            heard
        };
        let mut heard = cut_short();
        heard.take(0, Ok(Confirmation::Ack(None)));
        assert_eq!(heard.decide(&uids()).words, [Word::Confirmed, Word::Nothing, Word::Nothing]);
        // Message `c` may have been returned too, its return waiting for a confirm to come with.
        let mut heard = cut_short();
        heard.take(0, Ok(Confirmation::Ack(Some(returned("b")))));
        heard.take(2, Ok(Confirmation::Ack(None)));
        assert_eq!(heard.decide(&uids()).words, [Word::Nothing, no_route(), Word::Nothing]);
    }
}
