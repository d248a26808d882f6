//! Whether this replica is in the group, as librdkafka says it.
//!
//! A replica that reads nothing may be one of too many, may wait for topics that are yet to come,
//! or may have been thrown out and not come back. Only the last is a fault, and from outside all
//! three look alike: so librdkafka is asked where its joining stands.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::group::Partitions;
use super::partition::{Partition, Stage};
use crate::finding::Finding;

/// What health says of reading as a whole.
pub(super) const SUBJECT: &str = "kafka intake";

/// How often librdkafka says where it stands, in milliseconds.
pub(super) const SAID_EVERY_MS: &str = "1000";
/// How long a group may take to settle: a lost member is waited for, and a restarted cluster.
const SETTLES_WITHIN: Duration = Duration::from_secs(30);
/// Until a replica that finds no topics says so instead of that it joins.
const FINDS_WITHIN: Duration = Duration::from_secs(10);

/// The part of librdkafka's statistics that is about the group.
#[derive(Deserialize)]
struct Statistics {
    cgrp: Option<Cgrp>,
}

#[derive(Deserialize)]
struct Cgrp {
    join_state: String,
}

/// Where joining stands, and since when.
#[derive(Clone, Debug)]
pub(super) struct Joining {
    /// librdkafka's word for it, `steady` when it has joined and `init` before it tried.
    state: String,
    since: Instant,
}

impl Joining {
    pub(super) fn new() -> Self {
        Self { state: "init".to_owned(), since: Instant::now() }
    }

    /// Takes note of statistics, which are JSON.
    pub(super) fn note(&mut self, statistics: &[u8]) {
        let Ok(Statistics { cgrp: Some(Cgrp { join_state }) }) = serde_json::from_slice(statistics)
        else {
            return;
        };
        if join_state != self.state {
            *self = Self { state: join_state, since: Instant::now() };
        }
    }

    /// What is to be said of reading; nothing while it is on its way.
    pub(super) fn finding(&self, partitions: &Partitions) -> Option<Finding> {
        let all = || partitions.values().flat_map(HashMap::values);
        let begins = |partition: &Partition| matches!(partition.stage, Stage::Begins(_));
        let (count, taken) = (all().count(), self.since.elapsed());
        match self.state.as_str() {
            // What cannot begin says so itself.
            _ if all().any(begins) => None,
            _ if count > 0 => {
                Some(Finding::good(SUBJECT, format!("in the group, reads {count} partitions")))
            }
            "steady" => Some(Finding::good(
                SUBJECT,
                "in the group, reads no partition: other replicas read all there are",
            )),
            // That a topic is missing is said by `check`.
            "init" if taken >= FINDS_WITHIN => {
                Some(Finding::good(SUBJECT, "there is no capture topic to read yet"))
            }
            state if state != "init" && taken >= SETTLES_WITHIN => {
                let seconds = SETTLES_WITHIN.as_secs();
                let detail = format!(
                    "not in the group for more than {seconds} s, nothing is captured here: \
                     librdkafka is at `{state}`; look whether the brokers answer and whether the \
                     group's other members are alive (kafka-consumer-groups.sh --describe)"
                );
                Some(Finding::bad(SUBJECT, detail))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Grade;
    use crate::message::Destination;

    fn said(state: &str) -> Vec<u8> {
        format!(r#"{{"name":"xdelay","cgrp":{{"state":"up","join_state":"{state}"}}}}"#).into()
    }

    fn grade(joining: &Joining, partitions: &Partitions) -> Option<Grade> {
        joining.finding(partitions).map(|finding| finding.grade)
    }

    fn long_since(joining: &mut Joining) {
        joining.since = joining.since.checked_sub(SETTLES_WITHIN).expect("up for so long");
    }

    #[test]
    fn one_of_too_many_is_well_and_one_thrown_out_is_not() {
        let (mut joining, none) = (Joining::new(), Partitions::new());
        assert_eq!(grade(&joining, &none), None, "it has just begun");
        joining.note(&said("steady"));
        assert_eq!(grade(&joining, &none), Some(Grade::Good));
        joining.note(&said("wait-join"));
        assert_eq!(grade(&joining, &none), None, "it may be let in again");
        long_since(&mut joining);
        joining.note(&said("wait-join"));
        assert_eq!(grade(&joining, &none), Some(Grade::Bad));
        joining.note(b"no statistics");
        assert_eq!(grade(&joining, &none), Some(Grade::Bad), "no news");
        joining.note(&said("steady"));
        assert_eq!(grade(&joining, &none), Some(Grade::Good));
    }

    #[test]
    fn topics_that_are_yet_to_come_are_no_fault() {
        let (mut joining, none) = (Joining::new(), Partitions::new());
        long_since(&mut joining);
        assert_eq!(grade(&joining, &none), Some(Grade::Good));
    }

    #[test]
    fn what_has_not_begun_is_not_called_read() {
        let mut partitions = Partitions::new();
        let partition = Partition::new(Destination::kafka("orders"), 0);
        partitions.entry("xdelay.orders".to_owned()).or_default().insert(0, partition);
        let mut joining = Joining::new();
        joining.note(&said("steady"));
        assert_eq!(grade(&joining, &partitions), None);
    }
}
