//! Which node of a cluster is the master of which slot.
//!
//! What is known is a guess that every answer may correct. It is learnt from whichever node says
//! first that the cluster is whole, once more after anything went wrong, and one slot at a time
//! when a node says where a slot has gone. Nobody waits for it longer than a call may take.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::{Cmd, Value};
use tokio::time::timeout;

use super::endpoint::Endpoint;
use super::link::{Link, server_error, unavailable};
use super::slot::{SLOTS, Slot};
use crate::finding::Finding;
use crate::store::Error;

/// How long a node may take to say how the cluster is laid out.
const LAYOUT_WITHIN: Duration = Duration::from_secs(3);

/// Where a node is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Node {
    pub(super) host: String,
    port: u16,
}

impl Node {
    /// Reads `host:port`. A node that does not know its own host is where it was asked.
    pub(super) fn parse(text: &str, asked: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        Some(Self { host: host_or(host, asked), port: port.parse().ok()? })
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

fn host_or(host: &str, asked: &str) -> String {
    if host.is_empty() || host == "?" { asked } else { host }.to_owned()
}

pub(super) struct Cluster {
    seeds: Vec<Endpoint>,
    layout: Mutex<Layout>,
    links: Mutex<HashMap<Node, Arc<Link>>>,
    /// Held by who asks for the layout: others wait for that answer.
    asking: tokio::sync::Mutex<()>,
}

/// Who has what.
#[derive(Debug, Default)]
struct Layout {
    /// First slot, last slot, master.
    ranges: Vec<(Slot, Slot, Node)>,
    /// What was learnt since, a slot at a time.
    moved: HashMap<Slot, Node>,
    /// Whether it is what a node said after the last thing that went wrong.
    trusted: bool,
}

impl Layout {
    fn master_of(&self, slot: Slot) -> Option<&Node> {
        let of_range = || {
            let mut ranges = self.ranges.iter();
            ranges.find(|(first, last, _)| (*first..=*last).contains(&slot)).map(|found| &found.2)
        };
        self.moved.get(&slot).or_else(of_range)
    }

    fn uncovered(&self) -> Vec<Slot> {
        (0..SLOTS).filter(|slot| self.master_of(*slot).is_none()).collect()
    }
}

impl Cluster {
    pub(super) fn new(seeds: Vec<Endpoint>) -> Self {
        Self {
            seeds,
            layout: Mutex::default(),
            links: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        }
    }

    /// # Errors
    /// When no node answers, or none has this slot.
    pub(super) async fn master_of(&self, slot: Slot) -> Result<Node, Error> {
        let asked = self.ask_if_doubted().await;
        if let Some(node) = lock(&self.layout).master_of(slot) {
            return Ok(node.clone());
        }
        self.doubt();
        asked.and(Err(Error::Unavailable(format!(
            "no server of the cluster has slot {slot}: `redis-cli --cluster check` shows which are \
             not covered"
        ))))
    }

    /// All masters that have slots.
    pub(super) async fn masters(&self) -> Result<Vec<Node>, Error> {
        self.doubt();
        self.ask_if_doubted().await?;
        let layout = lock(&self.layout);
        let mut masters: Vec<_> = layout.ranges.iter().map(|(_, _, node)| node.clone()).collect();
        masters.sort();
        masters.dedup();
        Ok(masters)
    }

    /// Whether all slots have a master.
    pub(super) async fn finding(&self) -> Finding {
        let subject = "redis cluster";
        let masters = match self.masters().await {
            Ok(masters) => masters.len(),
            Err(error) => return Finding::bad(subject, error.to_string()),
        };
        let missing = lock(&self.layout).uncovered();
        match missing.first() {
            None => Finding::good(subject, format!("{masters} masters have all slots")),
            Some(slot) => Finding::bad(
                subject,
                format!(
                    "{} slots have no master, the first is {slot}: what belongs there is neither \
                     parked nor released; `redis-cli --cluster fix` mends it",
                    missing.len()
                ),
            ),
        }
    }

    pub(super) fn link(&self, node: &Node) -> Result<Arc<Link>, Error> {
        let mut links = lock(&self.links);
        if let Some(link) = links.get(node) {
            return Ok(Arc::clone(link));
        }
        let Some(seed) = self.seeds.first() else {
            return Err(Error::Unavailable("redis.url names no node".into()));
        };
        let link = Arc::new(Link::to(seed.elsewhere(&node.host, node.port)));
        links.insert(node.clone(), Arc::clone(&link));
        Ok(link)
    }

    /// Takes note that something went wrong: the next call asks who has what.
    pub(super) fn doubt(&self) {
        lock(&self.layout).trusted = false;
    }

    /// Takes note of where a node said that a slot has gone; there may be more that went.
    pub(super) fn learn(&self, slot: Slot, node: Node) {
        let mut layout = lock(&self.layout);
        layout.moved.insert(slot, node);
        layout.trusted = false;
    }

    async fn ask_if_doubted(&self) -> Result<(), Error> {
        if lock(&self.layout).trusted {
            return Ok(());
        }
        let _turn = self.asking.lock().await;
        if lock(&self.layout).trusted {
            return Ok(());
        }
        let ranges = self.ask_any().await?;
        let seeds = self.seeds.iter().filter_map(Endpoint::host_and_port);
        let seeds = seeds.map(|(host, port)| Node { host: host.to_owned(), port });
        let masters = ranges.iter().map(|(_, _, node)| node.clone());
        let known: HashSet<Node> = seeds.chain(masters).collect();
        lock(&self.links).retain(|node, _| known.contains(node));
        *lock(&self.layout) = Layout { ranges, moved: HashMap::new(), trusted: true };
        Ok(())
    }

    /// Asks all nodes at once and takes the first answer of one for which the cluster is whole.
    /// Where there is none, as between the death of a master and its succession, the best of the
    /// others: it knows which slots are well.
    async fn ask_any(&self) -> Result<Vec<(Slot, Slot, Node)>, Error> {
        let seeds = self.seeds.iter().filter_map(Endpoint::host_and_port);
        let seeds = seeds.map(|(host, port)| Node { host: host.to_owned(), port });
        let masters: Vec<Node> = lock(&self.links).keys().cloned().collect();
        let nodes: HashSet<Node> = seeds.chain(masters).collect();
        let mut answers: FuturesUnordered<_> =
            nodes.into_iter().map(|node| self.ask_node(node)).collect();
        let mut best: Result<Told, Error> =
            Err(Error::Unavailable("redis.url names no node".into()));
        while let Some(answer) = answers.next().await {
            match (answer, &best) {
                (Ok(told), _) if told.whole => return Ok(told.ranges),
                (Ok(told), Ok(before)) if told.epoch <= before.epoch => {}
                (Ok(told), _) => best = Ok(told),
                (Err(error), Err(_)) => best = Err(error),
                (Err(_), Ok(_)) => {}
            }
        }
        best.map(|told| told.ranges)
    }

    async fn ask_node(&self, node: Node) -> Result<Told, Error> {
        let link = self.link(&node)?;
        let ask = async {
            let mut live = link.live().await?;
            let mut pipeline = redis::Pipeline::with_capacity(2);
            for what in ["INFO", "SLOTS"] {
                let mut command = Cmd::new();
                command.arg("CLUSTER").arg(what);
                pipeline.add_command(command);
            }
            pipeline.ignore_errors();
            link.send(&mut live, &pipeline).await
        };
        let late = Err(Error::Unavailable(format!("{node} does not answer")));
        let answers = timeout(LAYOUT_WITHIN, ask).await.unwrap_or(late)?;
        if let Some(error) = answers.iter().find_map(server_error) {
            return Err(unavailable(&error));
        }
        Told::read(answers, &node.host)
            .ok_or_else(|| Error::Garbled(format!("CLUSTER SLOTS of {node}")))
    }
}

/// What one node says of the cluster.
struct Told {
    whole: bool,
    epoch: u64,
    ranges: Vec<(Slot, Slot, Node)>,
}

impl Told {
    fn read(answers: Vec<Value>, asked: &str) -> Option<Self> {
        let mut answers = answers.into_iter();
        let info: String = redis::from_redis_value(answers.next()?).ok()?;
        let field = |name: &str| {
            let mut lines = info.lines().filter_map(|line| line.trim_end().split_once(':'));
            lines.find_map(|(key, value)| (key == name).then_some(value))
        };
        let Value::Array(ranges) = answers.next()? else { return None };
        Some(Self {
            whole: field("cluster_state") == Some("ok"),
            epoch: field("cluster_current_epoch")?.parse().ok()?,
            ranges: ranges
                .into_iter()
                .map(|range| range_of(range, asked))
                .collect::<Option<_>>()?,
        })
    }
}

/// `[first, last, [host, port, ...], replicas...]`
fn range_of(range: Value, asked: &str) -> Option<(Slot, Slot, Node)> {
    let Value::Array(items) = range else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = items.as_slice() else {
        return None;
    };
    let [host, Value::Int(port), ..] = master.as_slice() else { return None };
    let host = match host {
        Value::BulkString(host) => String::from_utf8_lossy(host).into_owned(),
        Value::Nil => String::new(),
        _ => return None,
    };
    let node = Node { host: host_or(&host, asked), port: u16::try_from(*port).ok()? };
    Some((Slot::try_from(*first).ok()?, Slot::try_from(*last).ok()?, node))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: &str, port: u16) -> Node {
        Node { host: host.into(), port }
    }

    #[test]
    fn a_node_without_a_host_is_where_it_was_asked() {
        assert_eq!(Node::parse("10.0.0.1:7", "x"), Some(node("10.0.0.1", 7)));
        assert_eq!(Node::parse("::1:7", "x"), Some(node("::1", 7)));
        assert_eq!(Node::parse(":7", "x"), Some(node("x", 7)));
        assert_eq!(Node::parse("?:7", "x"), Some(node("x", 7)));
        assert_eq!(Node::parse("10.0.0.1", "x"), None);
    }

    #[test]
    fn what_was_learnt_last_counts_and_a_slot_may_belong_to_nobody() {
        let ranges = vec![(0, 9, node("a", 1)), (20, 29, node("b", 1))];
        let mut layout = Layout { ranges, ..Layout::default() };
        assert_eq!(layout.master_of(9), Some(&node("a", 1)));
        assert_eq!(layout.master_of(10), None);
        layout.moved.insert(9, node("b", 1));
        assert_eq!(layout.master_of(9), Some(&node("b", 1)));
    }

    #[test]
    fn the_answer_of_a_node_is_read() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let master = Value::Array(vec![text(""), Value::Int(7), text("id"), Value::Array(vec![])]);
        let replica = Value::Array(vec![text("r"), Value::Int(8), text("id")]);
        let range = Value::Array(vec![Value::Int(0), Value::Int(100), master, replica]);
        let info = text("cluster_state:ok\r\ncluster_current_epoch:6\r\n");
        let told = Told::read(vec![info, Value::Array(vec![range])], "asked").expect("readable");
        assert!(told.whole);
        assert_eq!(told.epoch, 6);
        assert_eq!(told.ranges, [(0, 100, node("asked", 7))]);
    }
}
