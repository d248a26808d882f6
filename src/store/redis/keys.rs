//! Every key name, and which bucket a message lies in.
//!
//! A bucket is one destination, or one hash slice of it when `redis.buckets` is above 1. All its
//! keys share one hash tag, so that in a cluster they lie in one slot and a script may touch them
//! all. A tag ends at the first closing brace, so braces in a destination's name are escaped.

use crate::message::{Content, Destination, Message};
use crate::store::Entry;

/// The names of one namespace.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    namespace: String,
    slices: u32,
}

/// The keys of one bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bucket {
    /// Uid by due: parked.
    pub due: String,
    /// Uid by end of lease, which is also its token: leased.
    pub lease: String,
    /// Uid by time of burial: dead.
    pub dead: String,
    /// Uid to due and envelope.
    pub msg: String,
    /// Uid to attempts, expiries and reason, when it did not go out at its first try.
    pub meta: String,
    /// Producer's id to uid.
    pub ids: String,
    /// Log to how far it was parked here.
    pub mark: String,
    /// Grows with every entry applied.
    pub seq: String,
    /// Grows with every claim.
    pub claims: String,
    /// There while an operator holds releases back.
    pub paused: String,
    /// Uid by when an operator ended it, lately.
    pub gone: String,
}

impl Keys {
    pub(super) fn new(namespace: &str, slices: u32) -> Self {
        Self { namespace: namespace.to_owned(), slices: slices.max(1) }
    }

    /// How many buckets each destination has.
    pub(super) fn slices(&self) -> u32 {
        self.slices
    }

    /// A hash that says what this namespace was laid out for.
    pub(super) fn namespace(&self) -> String {
        format!("{}:{{namespace}}:settings", self.namespace)
    }

    /// A set of every destination ever opened.
    pub(super) fn destinations(&self) -> String {
        format!("{}:{{namespace}}:destinations", self.namespace)
    }

    pub(super) fn bucket(&self, destination: &Destination, slice: u32) -> Bucket {
        let (broker, name) = (destination.broker.as_str(), escape(&destination.name));
        let prefix = format!("{}:{{{broker}:{name}:{slice}}}", self.namespace);
        Bucket {
            due: format!("{prefix}:due"),
            lease: format!("{prefix}:lease"),
            dead: format!("{prefix}:dead"),
            msg: format!("{prefix}:msg"),
            meta: format!("{prefix}:meta"),
            ids: format!("{prefix}:ids"),
            mark: format!("{prefix}:mark"),
            seq: format!("{prefix}:seq"),
            claims: format!("{prefix}:claims"),
            paused: format!("{prefix}:paused"),
            gone: format!("{prefix}:gone"),
        }
    }

    /// The slice an entry belongs to: by producer's id, so that a cancel meets its message, else
    /// by key or routing key, so that equal keys keep their order.
    pub(super) fn slice_of(&self, entry: &Entry) -> u32 {
        if self.slices == 1 {
            return 0;
        }
        match entry {
            Entry::Cancel { id, .. } => crc32fast::hash(id.as_str().as_bytes()) % self.slices,
            Entry::Park { message, .. } | Entry::Bury { message, .. } => {
                self.slice_of_message(message)
            }
        }
    }

    pub(super) fn slice_of_message(&self, message: &Message) -> u32 {
        let hash = match (&message.id, &message.content) {
            (Some(id), _) => crc32fast::hash(id.as_str().as_bytes()),
            (None, Content::Amqp(amqp)) => crc32fast::hash(&amqp.routing_key),
            (None, Content::Kafka(record)) => {
                crc32fast::hash(record.key.as_deref().unwrap_or_default())
            }
        };
        hash % self.slices
    }
}

fn escape(name: &str) -> String {
    name.replace('%', "%25").replace('{', "%7B").replace('}', "%7D")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_lies_in_one_slot_whatever_its_destination_is_called() {
        let keys = Keys::new("xdelay", 1);
        for name in ["orders", "}", "{}", "a}b{c", "%7D", ""] {
            let bucket = keys.bucket(&Destination::amqp(name), 0);
            let tag = |key: &str| {
                let (_, rest) = key.split_once('{').expect("a brace opens");
                rest.split_once('}').expect("a brace closes").0.to_owned()
            };
            assert!(!tag(&bucket.due).is_empty());
            for key in [&bucket.lease, &bucket.dead, &bucket.msg, &bucket.meta, &bucket.ids] {
                assert_eq!(tag(key), tag(&bucket.due), "{name}");
            }
            assert_eq!(tag(&bucket.seq), tag(&bucket.due), "{name}");
            assert_eq!(tag(&bucket.mark), tag(&bucket.due), "{name}");
            assert_eq!(tag(&bucket.claims), tag(&bucket.due), "{name}");
            assert_eq!(tag(&bucket.gone), tag(&bucket.due), "{name}");
        }
    }

    #[test]
    fn no_two_destinations_share_a_bucket() {
        let keys = Keys::new("xdelay", 1);
        let names = ["a", "a:0", "}", "%7D", "{", "%7B", "%"];
        let mut dues: Vec<_> =
            names.iter().map(|name| keys.bucket(&Destination::amqp(name), 0).due).collect();
        dues.sort();
        dues.dedup();
        assert_eq!(dues.len(), names.len());
    }
}
