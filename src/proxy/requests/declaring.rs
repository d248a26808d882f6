//! Declarations of plugin users among what a client sends.

use super::{Fate, Lead, Pass, Question, Requests, Rules, Step, Stop, Violation};
use crate::proxy::declares::{self, Exchange};
use crate::proxy::destinations::PREFIX;
use crate::proxy::frames::{self, METHOD, MethodId};
use crate::proxy::methods::{EXCHANGE_DECLARE, EXCHANGE_DELETE, QUEUE_DECLARE};

/// What becomes of a declaration.
enum Change {
    /// It passes as it is.
    Keep,
    /// This goes in place of it.
    Replace(Vec<u8>),
    Refuse(String),
    Ask(Question),
}

impl<R: Rules> Requests<R> {
    /// Whether a method may have to be changed here.
    pub(super) fn is_declaring(method: MethodId) -> bool {
        matches!(method, EXCHANGE_DECLARE | EXCHANGE_DELETE | QUEUE_DECLARE)
    }

    pub(super) fn declaring(
        &mut self,
        method: MethodId,
        lead: Lead,
        pass: &mut Pass<'_>,
    ) -> Result<Option<Stop>, Violation> {
        self.let_go(lead.channel, pass);
        if self.is_too_large(lead) {
            self.step = Step::over(lead.whole(), true);
            return Ok(None);
        }
        let Some(payload) = lead.payload(pass.rest())? else { return Ok(Some(Stop::More)) };
        let change = match method {
            EXCHANGE_DECLARE => self.exchange(payload),
            QUEUE_DECLARE => self.queue(payload),
            _ => {
                // If it comes again it has to be looked at anew.
                declares::deleted(payload).inspect(|name| self.rules.forget(name));
                Change::Keep
            }
        };
        match change {
            Change::Keep => pass.keep(lead.whole()),
            Change::Ask(question) => return Ok(Some(Stop::Ask(question))),
            Change::Replace(payload) => {
                pass.drop(lead.whole());
                frames::write(pass.insert(), METHOD, lead.channel, &[&payload]);
            }
            Change::Refuse(why) => {
                pass.drop(lead.whole());
                self.refuse(lead.channel, method, why, pass.insert());
            }
        }
        Ok(None)
    }

    fn exchange(&mut self, payload: &[u8]) -> Change {
        match declares::exchange(payload) {
            Exchange::Other => Change::Keep,
            Exchange::Bad => Change::Refuse(declares::BAD_TYPE.to_owned()),
            Exchange::Delayed { name, payload } => {
                let question = Question::Declared(String::from_utf8_lossy(name).into_owned());
                match self.answered(&question) {
                    None if self.rules.must_note(name, &self.vhost) => Change::Ask(question),
                    _ => Change::Replace(payload),
                }
            }
        }
    }

    fn queue(&mut self, payload: &[u8]) -> Change {
        let Some(exchange) = declares::dead_letters_to(payload) else { return Change::Keep };
        if exchange.is_empty() || !self.rules.may_be_declared(exchange, &self.vhost) {
            return Change::Keep;
        }
        let question = Question::DeadLetter(String::from_utf8_lossy(exchange).into_owned());
        match self.answered(&question) {
            None => Change::Ask(question),
            Some(Fate::Forward) => Change::Keep,
            Some(Fate::Refuse(why)) => Change::Refuse(why),
            Some(Fate::Capture) => {
                let capture = [PREFIX.as_bytes(), exchange].concat();
                declares::dead_lettering_to(payload, &capture).map_or(Change::Keep, Change::Replace)
            }
        }
    }
}
