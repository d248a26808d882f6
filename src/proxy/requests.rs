//! What a client sends, on its way to the broker: a publish that is to be delayed goes to the
//! capture exchange, all else passes as it is.
//!
//! A publish is a method frame, then a content header frame, then its body. Which exchange it goes
//! to stands in the first, whether it is to be delayed in the second; so the first waits for the
//! second. They nearly always come together. Where frames of other channels come between them, the
//! method alone is held back, which changes nothing: channels know nothing of each other.

mod declaring;
mod steady;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::BytesMut;

use self::steady::Steady;
use super::access::LoginRules;
use super::content::Content;
use super::destinations::{Fate, PREFIX};
use super::frames::{self, HEADER, Kind, Lead, METHOD, MethodId, Pass, Passed, Step, Violation};
use super::methods::{self, Publish, StartOk, Tuned};
use crate::broker::amqp::stamp::Stamp;
use crate::clock::UnixMs;

/// More than any `basic.publish` or method of the handshake but one has.
const METHOD_MAX: usize = 1 << 10;
/// The most that a login may have. Tokens are long.
const HANDSHAKE_MAX: usize = 1 << 17;
/// The largest frame that is waited for where none was agreed.
const FRAME_MAX_UNAGREED: usize = 1 << 24;

/// What decides about a publish.
pub(super) trait Rules {
    /// Whether messages to this exchange may be delayed.
    fn includes(&self, exchange: &[u8]) -> bool;
    /// What is known of a publish to be delayed; `None` where somebody has to be asked.
    fn fate(&self, exchange: &[u8], vhost: &[u8]) -> Option<Fate>;
    /// The store's clock.
    fn now(&self) -> UnixMs;
    /// What it has certainly not passed.
    fn latest(&self) -> UnixMs;
    /// The longest delay allowed.
    fn max_ms(&self) -> u64;
    /// Whether it must be noted that an exchange was declared as a delayed one.
    fn must_note(&self, exchange: &[u8], vhost: &[u8]) -> bool;
    /// Whether an exchange may have been declared so, as far as can be told without asking.
    fn may_be_declared(&self, exchange: &[u8], vhost: &[u8]) -> bool;
    /// An exchange is deleted: what is known of it holds no more.
    fn forget(&self, exchange: &[u8]);
}

/// What has to be found out before something can go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// What becomes of delayed publishes to this exchange?
    Publish(String),
    /// What becomes of messages that are dead-lettered into it?
    DeadLetter(String),
    /// None: it is to be noted that it was declared as a delayed one.
    Declared(String),
}

/// Why a pass ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It has seen all there is.
    More,
    /// What comes next waits until the broker has opened the connection.
    Opening,
    /// What comes next waits for an answer.
    Ask(Question),
}

/// What the other direction has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Close this channel towards the client because of a method, with this reason.
    Refused(u16, MethodId, String),
    /// Tell the client that its channel is closed, which it asked for.
    Closed(u16),
}

/// The walk over what one client sends.
pub(super) struct Requests<R> {
    rules: Arc<R>,
    login: LoginRules,
    is_open: bool,
    vhost: Vec<u8>,
    tuned: Tuned,
    step: Step,
    /// By channel: a publish whose content header has not come yet, without its frame.
    held: HashMap<u16, Vec<u8>>,
    /// Channels that were closed here: what the client sent before it heard of that goes nowhere.
    closed: HashSet<u16>,
    /// When what waits for an answer came.
    came: Option<UnixMs>,
    /// What the delay of the publish in hand counts from, if not from now.
    since: Option<UnixMs>,
    /// What the delays of this client's publishes have counted from.
    counted: Steady,
    /// The answer to what was asked.
    answer: Option<(Question, Fate)>,
    /// Goes to the broker between two frames.
    inserted: BytesMut,
    events: Vec<Event>,
    /// Publishes sent to a capture, not told yet.
    delayed: u64,
}

impl<R: Rules> Requests<R> {
    pub(super) fn new(rules: Arc<R>, login: LoginRules) -> Self {
        Self {
            rules,
            login,
            is_open: false,
            vhost: Vec::new(),
            tuned: Tuned::default(),
            step: Step::default(),
            held: HashMap::new(),
            closed: HashSet::new(),
            came: None,
            since: None,
            counted: Steady::default(),
            answer: None,
            inserted: BytesMut::new(),
            events: Vec::new(),
            delayed: 0,
        }
    }

    /// The broker has opened the connection.
    pub(super) fn open(&mut self) {
        self.is_open = true;
    }

    /// What [`Stop::Ask`] asked for.
    pub(super) fn answer(&mut self, question: Question, fate: Fate) {
        self.answer = Some((question, fate));
    }

    /// Sends something of our own to the broker, at the next end of a frame.
    pub(super) fn insert(&mut self, frame: &[u8]) {
        self.inserted.extend_from_slice(frame);
    }

    /// Whether something waits to be sent.
    pub(super) fn has_inserted(&self) -> bool {
        !self.inserted.is_empty()
    }

    /// Seconds between heartbeats, as agreed; 0 for none.
    pub(super) fn heartbeat(&self) -> u16 {
        self.tuned.heartbeat
    }

    /// How many publishes were sent to a capture since this was last asked.
    pub(super) fn take_delayed(&mut self) -> u64 {
        std::mem::take(&mut self.delayed)
    }

    /// What happened since this was last asked.
    pub(super) fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Walks over what has come in.
    ///
    /// # Errors
    /// When it is not AMQP.
    pub(super) fn pass(
        &mut self,
        input: &[u8],
        out: &mut BytesMut,
    ) -> Result<(Passed, Stop), Violation> {
        let mut pass = Pass::new(input, out);
        let stop = loop {
            self.step.walk(&mut pass)?;
            if !self.step.is_done() {
                break Stop::More;
            }
            if !self.inserted.is_empty() {
                pass.insert().extend_from_slice(&self.inserted.split());
            }
            let Some(lead) = Lead::read(pass.rest())? else { break Stop::More };
            let stop = match self.is_open {
                true => self.frame(lead, &mut pass)?,
                false if lead.channel == 0 => self.handshake(lead, &mut pass)?,
                false => Some(Stop::Opening),
            };
            if let Some(stop) = stop {
                break stop;
            }
        };
        // An answer is about what waited for it, and about nothing that comes later.
        self.answer = None;
        Ok((pass.end(), stop))
    }

    /// Learns what is agreed before the connection is open.
    fn handshake(&mut self, lead: Lead, pass: &mut Pass<'_>) -> Result<Option<Stop>, Violation> {
        if lead.length > HANDSHAKE_MAX {
            return Err(Violation(Kind::Frame, "a handshake that is too long"));
        }
        let Some(payload) = lead.payload(pass.rest())? else { return Ok(Some(Stop::More)) };
        match frames::method_id(payload) {
            Some(methods::CONNECTION_START_OK) => {
                let start_ok = StartOk::read(payload);
                if let Some(why) = start_ok.and_then(|start_ok| self.login.refusal(&start_ok)) {
                    return Err(Violation(Kind::Login, why));
                }
            }
            Some(methods::CONNECTION_TUNE_OK) => {
                self.tuned = Tuned::read(payload).unwrap_or_default();
            }
            Some(methods::CONNECTION_OPEN) => {
                self.vhost = methods::vhost(payload).unwrap_or_default().to_vec();
            }
            _ => {}
        }
        pass.keep(lead.whole());
        Ok(None)
    }

    fn frame(&mut self, lead: Lead, pass: &mut Pass<'_>) -> Result<Option<Stop>, Violation> {
        if !self.closed.is_empty() && self.closed.contains(&lead.channel) {
            return Ok(self.on_closed_channel(lead, pass));
        }
        match lead.kind {
            METHOD => match methods::begun(pass.rest()) {
                None => return Ok(Some(Stop::More)),
                Some(methods::BASIC_PUBLISH) => return self.publish(lead, pass),
                Some(method) if Self::is_declaring(method) => {
                    return self.declaring(method, lead, pass);
                }
                Some(_) => {}
            },
            HEADER if self.held.contains_key(&lead.channel) => return self.header(lead, pass),
            _ => {}
        }
        self.let_go(lead.channel, pass);
        self.step = Step::over(lead.whole(), true);
        Ok(None)
    }

    /// A publish, and its content header where that comes next.
    fn publish(&mut self, lead: Lead, pass: &mut Pass<'_>) -> Result<Option<Stop>, Violation> {
        self.let_go(lead.channel, pass);
        let rest = pass.rest();
        if lead.length > METHOD_MAX {
            self.step = Step::over(lead.whole(), true);
            return Ok(None);
        }
        let Some(method) = lead.payload(rest)? else { return Ok(Some(Stop::More)) };
        let Some(publish) = Publish::read(method) else {
            pass.keep(lead.whole());
            return Ok(None);
        };
        let after = &rest[lead.whole()..];
        let Some(next) = Lead::read(after)? else { return Ok(Some(Stop::More)) };
        if (next.kind, next.channel) != (HEADER, lead.channel) {
            self.held.insert(lead.channel, method.to_vec());
            pass.drop(lead.whole());
            return Ok(None);
        }
        if self.is_too_large(next) {
            pass.keep(lead.whole());
            self.step = Step::over(next.whole(), true);
            return Ok(None);
        }
        let Some(header) = next.payload(after)? else { return Ok(Some(Stop::More)) };
        match self.judge(&publish, header) {
            Judged::Leave => pass.keep(lead.whole() + next.whole()),
            Judged::Ask(question) => return Ok(Some(Stop::Ask(question))),
            judged => {
                pass.drop(lead.whole() + next.whole());
                self.carry_out(judged, lead.channel, &publish, header, pass.insert());
            }
        }
        Ok(None)
    }

    /// The content header of a publish that was held back.
    fn header(&mut self, lead: Lead, pass: &mut Pass<'_>) -> Result<Option<Stop>, Violation> {
        if self.is_too_large(lead) {
            self.let_go(lead.channel, pass);
            self.step = Step::over(lead.whole(), true);
            return Ok(None);
        }
        let Some(header) = lead.payload(pass.rest())? else { return Ok(Some(Stop::More)) };
        let Some(method) = self.held.remove(&lead.channel) else { return Ok(None) };
        let judged = match Publish::read(&method) {
            Some(publish) => (self.judge(&publish, header), publish),
            None => return Ok(None),
        };
        match judged {
            (Judged::Leave, _) => {
                frames::write(pass.insert(), METHOD, lead.channel, &[&method]);
                pass.keep(lead.whole());
            }
            (Judged::Ask(question), _) => {
                self.held.insert(lead.channel, method);
                return Ok(Some(Stop::Ask(question)));
            }
            (judged, publish) => {
                pass.drop(lead.whole());
                self.carry_out(judged, lead.channel, &publish, header, pass.insert());
            }
        }
        Ok(None)
    }

    /// Decides about a publish by its content header.
    fn judge(&mut self, publish: &Publish<'_>, header: &[u8]) -> Judged {
        if !Content::has_headers(header) {
            return Judged::Leave;
        }
        let rules = Arc::clone(&self.rules);
        let Ok(content) = Content::read(header) else { return Judged::Leave };
        let asks = content.asks_for_delay(|| rules.now(), rules.max_ms());
        if asks != Ok(true) || !rules.includes(publish.exchange) {
            return Judged::Leave;
        }
        let question = || Question::Publish(String::from_utf8_lossy(publish.exchange).into_owned());
        let answered = self.answer.is_some().then(|| self.answered(&question())).flatten();
        // Its delay counts from when it came, and no other's does.
        self.since = answered.is_some().then(|| self.came.take()).flatten();
        match answered.or_else(|| rules.fate(publish.exchange, &self.vhost)) {
            Some(Fate::Capture) => Judged::Capture,
            Some(Fate::Forward) => Judged::Leave,
            Some(Fate::Refuse(why)) => Judged::Refuse(why),
            None => {
                self.came.get_or_insert_with(|| rules.latest());
                Judged::Ask(question())
            }
        }
    }

    fn carry_out(
        &mut self,
        judged: Judged,
        channel: u16,
        publish: &Publish<'_>,
        header: &[u8],
        out: &mut BytesMut,
    ) {
        match judged {
            Judged::Leave | Judged::Ask(_) => {}
            Judged::Capture => {
                self.delayed += 1;
                publish.write_to(out, channel, PREFIX);
                let stamped = self.stamped(header);
                let header = stamped.as_deref().unwrap_or(header);
                frames::write(out, HEADER, channel, &[header]);
            }
            Judged::Refuse(why) => self.refuse(channel, methods::BASIC_PUBLISH, why, out),
        }
    }

    /// Closes a channel towards the broker, and has it closed towards the client.
    fn refuse(&mut self, channel: u16, method: MethodId, why: String, out: &mut BytesMut) {
        methods::write_channel_close(out, channel, method, "refused by xdelay");
        self.closed.insert(channel);
        self.events.push(Event::Refused(channel, method, why));
    }

    /// The answer to a question, once, when it was asked.
    fn answered(&mut self, question: &Question) -> Option<Fate> {
        self.answer.take_if(|(asked, _)| asked == question).map(|(_, fate)| fate)
    }

    /// The header with a stamp on it, unless that would not fit into a frame any more.
    fn stamped(&mut self, header: &[u8]) -> Option<Vec<u8>> {
        let content = Content::read(header).ok()?;
        let now = self.since.take().unwrap_or_else(|| self.rules.latest());
        let now = self.counted.from(now);
        let mut stamp = Stamp::new(now);
        stamp.due = content.due(now, self.rules.max_ms());
        let stamped = content.stamped(stamp).ok()?;
        let frame_max = self.tuned.frame_max as usize;
        (frame_max == 0 || stamped.len() + frames::LEAD < frame_max).then_some(stamped)
    }

    /// The broker ends the connection over such a frame; it need not be waited for.
    fn is_too_large(&self, lead: Lead) -> bool {
        match self.tuned.frame_max as usize {
            0 => lead.length > FRAME_MAX_UNAGREED,
            agreed => lead.length > agreed,
        }
    }

    /// What comes instead of a content header ends the wait for it.
    fn let_go(&mut self, channel: u16, pass: &mut Pass<'_>) {
        if !self.held.is_empty()
            && let Some(method) = self.held.remove(&channel)
        {
            frames::write(pass.insert(), METHOD, channel, &[&method]);
        }
    }

    /// What a client sends on a channel that was closed here.
    fn on_closed_channel(&mut self, lead: Lead, pass: &mut Pass<'_>) -> Option<Stop> {
        let mut keeps = false;
        if lead.kind == METHOD {
            let Some(method) = methods::begun(pass.rest()) else { return Some(Stop::More) };
            match method {
                methods::CHANNEL_CLOSE_OK => {
                    self.closed.remove(&lead.channel);
                }
                // It takes its own close for done.
                methods::CHANNEL_OPEN => {
                    self.closed.remove(&lead.channel);
                    keeps = true;
                }
                methods::CHANNEL_CLOSE => self.events.push(Event::Closed(lead.channel)),
                _ => {}
            }
        }
        self.step = Step::over(lead.whole(), keeps);
        None
    }
}

/// What was decided about a publish.
enum Judged {
    Leave,
    Capture,
    Refuse(String),
    Ask(Question),
}

#[cfg(test)]
mod golden;
#[cfg(test)]
mod tests;
