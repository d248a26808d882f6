//! From a load to what it needs.

use xdelay::store::redis::slot_of;

/// Processor time of Redis for a message, park to settle, from docs/benchmarks.md.
pub const STORE_US: f64 = 33.0;
/// The same of xdelay.
const XDELAY_US: f64 = 40.0;
/// What a parked message takes in Redis besides its body, and each byte of that: measured by
/// `a_parked_message_takes_what_the_model_says`.
const MESSAGE_BYTES: f64 = 255.0;
const BODY_FACTOR: f64 = 1.25;

/// Chosen, not measured: how busy a core may be, what part of its memory a master may fill, and how
/// much memory and how many cores a server has.
const BUSY: f64 = 0.5;
const FULL: f64 = 0.5;
const MASTER_GB: f64 = 128.0;
const CORES: f64 = 2.0;
const SLOTS: u32 = 16_384;
const BUCKETS_MAX: u32 = 1_024;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Delayed messages a second, as many in as out.
    pub rate: u64,
    /// Parked at a time: rate times the mean delay.
    pub backlog: u64,
    pub body: usize,
    /// How long xdelay or the broker may be away, in seconds.
    pub outage_s: u64,
    /// How soon after that nothing may be overdue any more, in seconds.
    pub drained_within_s: u64,
}

/// What it takes.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    pub replicas: u32,
    pub masters: u32,
    pub buckets: u32,
    /// Of all masters together, room included.
    pub gigabytes: f64,
}

pub const LOADS: &[Load] = &[
    Load { rate: 100, backlog: 1_000_000, body: 200, outage_s: 600, drained_within_s: 60 },
    Load { rate: 1_000, backlog: 50_000_000, body: 200, outage_s: 3_600, drained_within_s: 1_800 },
    Load { rate: 5_000, backlog: 10_000_000, body: 100, outage_s: 3_600, drained_within_s: 600 },
    Load { rate: 10_000, backlog: 1_000_000_000, body: 200, outage_s: 600, drained_within_s: 600 },
];

pub fn bytes_of(body: usize) -> u64 {
    (MESSAGE_BYTES + BODY_FACTOR * body as f64) as u64
}

impl Load {
    pub fn faster(self, times: u64) -> Self {
        Self { rate: self.rate * times, ..self }
    }

    /// Messages a second while what an outage left is worked off beside what comes in.
    fn peak(&self) -> f64 {
        let left = self.rate as f64 * self.outage_s as f64;
        self.rate as f64 + left / self.drained_within_s as f64
    }

    pub fn need(&self) -> Need {
        let data = self.backlog as f64 * bytes_of(self.body) as f64 / 1e9;
        let mut masters = 1;
        let buckets = loop {
            let fits = |buckets: &u32| {
                let share = fullest_share(*buckets, masters);
                self.peak() * share * STORE_US / 1e6 <= BUSY && data * share <= FULL * MASTER_GB
            };
            // A cluster begins with three masters.
            let mut choices = (0..).map(|power| 1 << power).take_while(|it| *it <= BUCKETS_MAX);
            match choices.find(fits) {
                Some(buckets) => break buckets,
                None => masters = if masters == 1 { 3 } else { masters + 1 },
            }
        };
        let busy = self.peak() * XDELAY_US / 1e6 / (BUSY * CORES);
        // One alone has nobody to take over.
        Need { replicas: (busy.ceil() as u32).max(2), masters, buckets, gigabytes: data / FULL }
    }
}

/// The part of a destination that lies on the master that has most of its buckets, when the slots
/// are shared out evenly and in order.
pub fn fullest_share(buckets: u32, masters: u32) -> f64 {
    let mut of_master = vec![0_u32; masters as usize];
    for bucket in 0..buckets {
        of_master[master_of(bucket, masters)] += 1;
    }
    f64::from(of_master.into_iter().max().unwrap_or(0)) / f64::from(buckets)
}

pub fn master_of(bucket: u32, masters: u32) -> usize {
    let slot = u32::from(slot_of(&format!("{{amqp:orders:{bucket}}}")));
    (slot * masters / SLOTS) as usize
}
