//! Which messages a listing or a bulk step is about, and how they are gone through page by page.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::State as AdminState;
use super::lookup;
use super::problem::Problem;
use super::time::millis;
use super::words::{BrokerWord, StateWord};
use crate::clock::UnixMs;
use crate::message::Destination;
use crate::store::{Error, Listing, Place, Seen, Start, State};

/// Most messages that are looked at for one page: what does not match costs time too.
pub(super) const EXAMINED_MAX: usize = 2_000;
/// Messages looked at in one step, by all destinations together.
const STEP: usize = 400;

/// All of these must hold; none at all is everything parked.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Filter {
    /// The exchange or topic.
    pub destination: Option<String>,
    /// `amqp` or `kafka`, where both have a destination of that name.
    #[schema(value_type = Option<BrokerWord>, inline)]
    pub broker: Option<String>,
    /// `parked` (when not given), `leased` or `dead`.
    #[schema(value_type = Option<StateWord>, inline)]
    pub state: Option<String>,
    /// What the producer's id begins with.
    pub id: Option<String>,
    /// The routing key or record key.
    pub key: Option<String>,
    /// Due at this instant or later, in Unix milliseconds.
    #[serde(deserialize_with = "millis")]
    pub due_from: Option<UnixMs>,
    /// Due before this instant, in Unix milliseconds.
    #[serde(deserialize_with = "millis")]
    pub due_to: Option<UnixMs>,
}

/// Messages that match, and where to go on.
pub(super) struct Page {
    pub matches: Vec<(Destination, Seen)>,
    pub examined: usize,
    /// `None` at the end.
    pub next: Option<Place>,
}

impl Filter {
    /// Whether it leaves out nothing.
    pub(super) fn is_empty(&self) -> bool {
        let Self { destination, broker, state, id, key, due_from, due_to } = self;
        let texts = [destination, broker, state, id, key];
        texts.iter().all(|text| text.is_none()) && due_from.is_none() && due_to.is_none()
    }

    pub(super) fn state(&self) -> Result<State, Problem> {
        match self.state.as_deref() {
            None | Some("parked") => Ok(State::Parked),
            Some("leased") => Ok(State::Leased),
            Some("dead") => Ok(State::Dead),
            Some(_) => Err(Problem::invalid("state is `parked`, `leased` or `dead`")),
        }
    }

    /// Reads a cursor, which is only good for a filter like the one it came from.
    pub(super) fn start(&self, cursor: Option<&str>) -> Result<Start, Problem> {
        match cursor {
            Some(text) => Place::from_text(text).map(Start::After).ok_or_else(bad_cursor),
            // Only of what is parked does the order follow the due, and a message that was
            // postponed stands behind it, never before.
            None => match self.state()? {
                State::Parked => Ok(Start::At(self.due_from.unwrap_or(0))),
                State::Leased | State::Dead => Ok(Start::At(0)),
            },
        }
    }

    /// Up to `most` matches from `start` on.
    pub(super) async fn page(
        &self,
        admin: &AdminState,
        start: Start,
        most: usize,
    ) -> Result<Page, Problem> {
        let state = self.state()?;
        let places =
            lookup::destinations(admin, self.destination.as_deref(), self.broker.as_deref())?;
        let mut page = Page { matches: Vec::new(), examined: 0, next: None };
        let mut start = start;
        while page.examined < EXAMINED_MAX {
            // Each destination is asked for its share, so that many of them cost what one does.
            let step = (STEP / places.len().max(1)).clamp(1, 200);
            let (seen, more, read) = look(admin, &places, state, &start, step).await?;
            page.examined += read;
            for (destination, seen) in seen {
                let place = seen.place().clone();
                page.next = Some(place.clone());
                start = Start::After(place);
                if self.matches(&seen) {
                    page.matches.push((destination, seen));
                }
                if page.matches.len() == most {
                    return Ok(page);
                }
            }
            if !more {
                page.next = None;
                return Ok(page);
            }
        }
        Ok(page)
    }

    fn matches(&self, seen: &Seen) -> bool {
        let id = self.id.as_ref().is_none_or(|wanted| {
            seen.id().is_some_and(|id| id.as_str().starts_with(wanted.as_str()))
        });
        let key = self.key.as_ref().is_none_or(|wanted| {
            seen.head.as_ref().is_ok_and(|head| *head.key == *wanted.as_bytes())
        });
        id && key
            && self.due_from.is_none_or(|from| seen.due >= from)
            && self.due_to.is_none_or(|to| seen.due < to)
    }
}

fn bad_cursor() -> Problem {
    Problem::invalid("cursor is what an earlier page of the same store answered")
}

/// One step through several destinations, in the order of places.
async fn look(
    admin: &AdminState,
    places: &[Destination],
    state: State,
    start: &Start,
    most: usize,
) -> Result<(Vec<(Destination, Seen)>, bool, usize), Problem> {
    let mut parts = Vec::new();
    let mut owners = std::collections::HashMap::new();
    for destination in places {
        let part = admin.store.list(destination, state, start.clone(), most).await;
        let part = part.map_err(|error| match (error, start) {
            (Error::Garbled(_), Start::After(_)) => bad_cursor(),
            (error, _) => Problem::from(error),
        })?;
        for seen in &part.seen {
            owners.insert((seen.place().clone(), seen.uid.clone()), destination.clone());
        }
        parts.push(part);
    }
    let read = parts.iter().map(|part| part.seen.len()).sum();
    let Listing { seen, more } = Listing::merge(parts, usize::MAX);
    let seen = seen
        .into_iter()
        .filter_map(|seen| {
            let owner = owners.remove(&(seen.place().clone(), seen.uid.clone()))?;
            Some((owner, seen))
        })
        .collect();
    Ok((seen, more, read))
}
