//! From the names in a request to destinations and messages.

use super::State;
use super::problem::Problem;
use crate::clock::rfc3339;
use crate::history::What;
use crate::message::{BrokerKind, Destination, ProducerId, Uid};
use crate::store::{Found, Name};

/// The destination of this name. `broker` tells an exchange from a topic of the same name.
pub(super) fn destination(
    state: &State,
    name: &str,
    broker: Option<&str>,
) -> Result<Destination, Problem> {
    let broker = broker.map(broker_kind).transpose()?;
    let all = state.destinations.all();
    let is_it =
        |it: &&Destination| *it.name == *name && broker.is_none_or(|kind| kind == it.broker);
    let mut fitting = all.iter().filter(is_it);
    match (fitting.next(), fitting.next()) {
        (Some(one), None) => Ok(one.clone()),
        (Some(_), Some(_)) => Err(Problem::invalid(format!(
            "`{name}` is an exchange and a topic: add broker=amqp or broker=kafka"
        ))),
        (None, _) => {
            let known: Vec<_> = all.iter().map(|it| &*it.name).collect();
            Err(Problem::unknown(format!(
                "there is no destination of that name; there are: {}",
                known.join(", ")
            )))
        }
    }
}

/// Those that a listing is about: one, or all.
pub(super) fn destinations(
    state: &State,
    name: Option<&str>,
    broker: Option<&str>,
) -> Result<Vec<Destination>, Problem> {
    match name {
        Some(name) => destination(state, name, broker).map(|it| vec![it]),
        None => {
            let broker = broker.map(broker_kind).transpose()?;
            let all = state.destinations.all().into_iter();
            Ok(all.filter(|it| broker.is_none_or(|kind| kind == it.broker)).collect())
        }
    }
}

fn broker_kind(word: &str) -> Result<BrokerKind, Problem> {
    BrokerKind::parse(word).ok_or_else(|| Problem::invalid("broker is `amqp` or `kafka`"))
}

/// How a request names one message: by uid, or with a destination by its producer's id.
pub(super) struct Named {
    text: String,
    places: Vec<Destination>,
    names: Vec<Name>,
}

impl Named {
    pub(super) fn new(
        state: &State,
        text: String,
        destination: Option<&str>,
        broker: Option<&str>,
    ) -> Result<Self, Problem> {
        let places = destinations(state, destination, broker)?;
        let by_id = destination.and_then(|_| ProducerId::new(text.as_bytes())).map(Name::Id);
        let by_uid = Uid::parse(&text).map(Name::Uid);
        let names: Vec<Name> = by_id.into_iter().chain(by_uid).collect();
        if names.is_empty() {
            return Err(Problem::invalid(
                "a message is named by its uid, or by its producer's id with ?destination=",
            ));
        }
        Ok(Self { text, places, names })
    }

    /// Looks it up.
    ///
    /// # Errors
    /// That it is not here, and when it was released if that is known.
    pub(super) async fn find(&self, state: &State) -> Result<(Destination, Found), Problem> {
        for name in &self.names {
            for place in &self.places {
                if let Some(found) = state.store.find(place, name).await? {
                    return Ok((place.clone(), found));
                }
            }
        }
        Err(self.gone(state))
    }

    /// Where it may have gone.
    fn gone(&self, state: &State) -> Problem {
        let is_it = |name: &Name, uid: Option<&Uid>, id: Option<&ProducerId>| match name {
            Name::Uid(wanted) => uid == Some(wanted),
            Name::Id(wanted) => id == Some(wanted),
        };
        let last = state.history().last(1, |event| {
            self.names.iter().any(|it| is_it(it, event.uid.as_ref(), event.id.as_ref()))
                && self.places.contains(&event.destination)
        });
        let unknown = format!(
            "no message is called `{}` here: it was released by another replica or long ago, was \
             cancelled, or never was",
            self.text
        );
        match last.first().map(|event| (&event.what, event.at)) {
            Some((What::Released { .. }, at)) => Problem {
                status: 410,
                kind: "released",
                detail: format!("it was released at {}", rfc3339(at)),
                released_at: Some(at),
            },
            Some((What::Cancelled { possibly_delivered: false }, at)) => {
                Problem::unknown(format!("it was cancelled at {}", rfc3339(at)))
            }
            Some((What::Cancelled { possibly_delivered: true }, at)) => Problem::unknown(format!(
                "it was cancelled at {}, possibly after it was delivered",
                rfc3339(at)
            )),
            _ => Problem::unknown(unknown),
        }
    }
}
