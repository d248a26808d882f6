//! The servers that hold what is parked: one, or the masters of a cluster; and the way from a key
//! to its server.
//!
//! A cluster may answer that a slot is elsewhere, for good (`MOVED`) or for this once (`ASK`).
//! Such an answer is followed a few times, never for ever; whatever else it says (`TRYAGAIN`,
//! `CLUSTERDOWN`) is an outage of that bucket and goes to the loops, which wait and try again.

use std::sync::Arc;

use redis::{Cmd, ErrorKind, Pipeline, ServerErrorKind, Value};

use super::address::Address;
use super::cluster::{Cluster, Node};
use super::link::{Link, server_error};
use super::slot::Slot;
use crate::store::Error;

/// How often one call is sent on. A slot that moves at every hop belongs to nobody.
const HOPS_MAX: usize = 5;

pub(super) enum Masters {
    One(Arc<Link>),
    Cluster(Cluster),
}

/// Where to send what belongs to a slot.
pub(super) struct Place {
    pub(super) link: Arc<Link>,
    /// In a cluster, which of its nodes that is.
    node: Option<Node>,
    /// Whether the slot is still on its way there: then each command must say that it knows.
    asking: bool,
}

/// The way of one call.
pub(super) struct Route<'a> {
    masters: &'a Masters,
    slot: Slot,
    place: Place,
    hops_left: usize,
}

impl Masters {
    /// Connects to nothing yet.
    pub(super) fn new(url: &str) -> Result<Self, Error> {
        Ok(match Address::parse(url)? {
            Address::Server(server) => Self::One(Arc::new(Link::to(*server))),
            Address::Sentinels(sentinels) => Self::One(Arc::new(Link::behind(*sentinels))),
            Address::Cluster(nodes) => Self::Cluster(Cluster::new(nodes)),
        })
    }

    pub(super) async fn route(&self, slot: Slot) -> Result<Route<'_>, Error> {
        let place = match self {
            Self::One(link) => Place { link: Arc::clone(link), node: None, asking: false },
            Self::Cluster(cluster) => Place::of(cluster, cluster.master_of(slot).await?)?,
        };
        Ok(Route { masters: self, slot, place, hops_left: HOPS_MAX })
    }

    /// All of them, with what to call each.
    pub(super) async fn all(&self) -> Result<Vec<(String, Arc<Link>)>, Error> {
        match self {
            Self::One(link) => Ok(vec![("redis".into(), Arc::clone(link))]),
            Self::Cluster(cluster) => {
                let masters = cluster.masters().await?.into_iter();
                masters.map(|node| Ok((format!("redis {node}"), cluster.link(&node)?))).collect()
            }
        }
    }

    /// Sends commands on keys of one slot, and gives their answers.
    ///
    /// # Errors
    /// When one of them is answered with an error.
    pub(super) async fn ask(&self, slot: Slot, commands: Vec<Cmd>) -> Result<Vec<Value>, Error> {
        let mut route = self.route(slot).await?;
        loop {
            let pipeline = route.place().pipeline(commands.iter().cloned());
            let answers = route.place().send(&pipeline).await;
            if route.leads_on(&answers)? {
                continue;
            }
            let answers = answers?;
            return match answers.iter().find_map(server_error) {
                Some(error) => Err(super::link::unavailable(&error)),
                None => Ok(answers),
            };
        }
    }
}

impl Place {
    fn of(cluster: &Cluster, node: Node) -> Result<Self, Error> {
        Ok(Self { link: cluster.link(&node)?, node: Some(node), asking: false })
    }

    /// These commands, each with what it needs in front of it here.
    pub(super) fn pipeline(&self, commands: impl IntoIterator<Item = Cmd>) -> Pipeline {
        let mut pipeline = Pipeline::new();
        for command in commands {
            if self.asking {
                pipeline.cmd("ASKING");
            }
            pipeline.add_command(command);
        }
        pipeline.ignore_errors();
        pipeline
    }

    /// Sends what [`pipeline`](Self::pipeline) made, and gives one answer for each command.
    pub(super) async fn send(&self, pipeline: &Pipeline) -> Result<Vec<Value>, Error> {
        let mut live = self.link.live().await?;
        let answers = self.link.send(&mut live, pipeline).await?;
        let step = 1 + usize::from(self.asking);
        Ok(answers.into_iter().skip(step - 1).step_by(step).collect())
    }
}

impl Route<'_> {
    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// True when these answers send the call elsewhere: then [`place`](Self::place) is there.
    ///
    /// # Errors
    /// When it was sent on too often.
    pub(super) fn leads_on(&mut self, answers: &Result<Vec<Value>, Error>) -> Result<bool, Error> {
        let (Masters::Cluster(cluster), Some(node)) = (self.masters, &self.place.node) else {
            return Ok(false);
        };
        let Ok(answers) = answers else {
            cluster.doubt();
            return Ok(false);
        };
        let Some(error) = answers.iter().find_map(server_error) else { return Ok(false) };
        let ErrorKind::Server(kind) = error.kind() else { return Ok(false) };
        let asking = match kind {
            ServerErrorKind::Moved => false,
            ServerErrorKind::Ask => true,
            ServerErrorKind::ClusterDown
            | ServerErrorKind::MasterDown
            | ServerErrorKind::ReadOnly
            | ServerErrorKind::BusyLoading => {
                cluster.doubt();
                return Ok(false);
            }
            _ => return Ok(false),
        };
        let next = error.redirect_node().and_then(|(place, _)| Node::parse(place, &node.host));
        let next = next.ok_or_else(|| Error::Garbled("a slot was moved to nowhere".into()))?;
        if self.hops_left == 0 {
            cluster.doubt();
            return Err(Error::Unavailable(format!(
                "the cluster sends slot {} from one server to the next",
                self.slot
            )));
        }
        self.hops_left -= 1;
        if !asking {
            cluster.learn(self.slot, next.clone());
        }
        self.place = Place { asking, ..Place::of(cluster, next)? };
        Ok(true)
    }
}
