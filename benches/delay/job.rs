//! What the load process is told to do, and what it answers.

use serde::{Deserialize, Serialize};

use crate::side::Broker;

/// What delay the messages ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Delay {
    /// None, without a word of it.
    Unasked,
    /// Each the same, in milliseconds.
    Each(u64),
    /// Drawn evenly from these milliseconds.
    Between(u64, u64),
    /// All at one instant, so many milliseconds after the first publish.
    Together(u64),
}

/// One round of publishing and recording.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub broker: Broker,
    /// Where the consumer connects.
    pub server: String,
    /// Where the producer connects.
    pub producer: String,
    /// The exchange or topic that the producer names.
    pub to: String,
    pub messages: u64,
    pub body_bytes: usize,
    /// Messages per second; as fast as it goes where there is none.
    pub rate: Option<u64>,
    pub delay: Delay,
    /// Whether somebody on the way heeds the delay.
    pub held: bool,
    /// False: publish only, to be kept parked.
    pub consume: bool,
    /// Seconds without an arrival after which what is missing counts as lost.
    pub patience: u64,
}

/// What came of a round. Instants are microseconds since 1970.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub messages: u64,
    /// Whether xdelay was to hold the messages, and to say so on each.
    pub held: bool,
    pub first_publish_us: u64,
    pub last_confirm_us: u64,
    /// When the last message was to arrive: scheduled publish plus delay. The last confirm, where
    /// there was neither.
    pub last_planned_us: u64,
    pub arrived: Option<Arrivals>,
    /// The most memory that one process of xdelay had in use, in bytes.
    pub peak_memory: Option<u64>,
}

/// What the recorder saw.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Arrivals {
    pub first_arrival_us: u64,
    pub last_arrival_us: u64,
    pub lost: u64,
    /// Arrivals beyond the first, by message id.
    pub duplicates: u64,
    /// Arrivals beyond the first, by `x-delayed-uid`; equal to `duplicates` while uids are unique.
    pub duplicates_by_uid: u64,
    /// Arrivals that overtook one that was due earlier, or due with it and published before it.
    /// Of Kafka, within a partition.
    pub out_of_order: u64,
    /// Arrivals before their due.
    pub early: u64,
    /// Arrivals with `x-delayed-due` and `x-delayed-uid`.
    pub marked: u64,
    /// Arrivals that are not of this round.
    pub strangers: u64,
    /// Arrivals whose body is not the one that was sent.
    pub garbled: u64,
    /// Arrival minus `x-delayed-due`.
    pub lateness: Quantiles,
    /// Arrival minus (scheduled publish plus asked delay): what the producer sees, waiting for the
    /// park included.
    pub overshoot: Quantiles,
}

/// Microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Quantiles {
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}
