//! All integration tests, as one binary. They need the services that `make test` starts.
//!
//! | module | tests |
//! | --- | --- |
//! | `lua` | each script alone: seed, run, compare the whole keyspace |
//! | `store_contract` | the promises of `Store`, on every store there is |
//! | `redis_faults` | what can befall a Redis |
//! | `redis_cluster` | the promises of `Store` on a Redis Cluster, and what can befall one |
//! | `redis_sentinel` | a master that sentinels name, and its successors |
//! | `rebucket` | another number of buckets, whatever lies in them and whenever it is ended |
//! | `embedded_faults` | what can befall the file of the embedded store |
//! | `broker_contract` | the promises of `Broker`, on every broker there is |
//! | `loops` | intake, release and recover, with faults at exact moments |
//! | `model` | the loops of two replicas, every mishap between two calls, on a clock that stands still |
//! | `fidelity` | what a message looks like after it was held back |
//! | `capture` | topology: declaring, checking, rescuing, setting aside |
//! | `end_to_end` | the binary, a foreign client, a real broker and store |
//! | `traces` | spans of captures and releases, as a collector gets them |
//! | `user_id` | who may change what is parked, as RabbitMQ knows users |
//! | `proxy` | clients that change nothing but the URL |
//! | `least_rights` | as users that may do what the README says, and nothing more |
//! | `tls` | verified, with certificates on either side |
//! | `network` | bad weather between xdelay and its neighbours |
//! | `crash` | kill -9 of everything, under load |
//! | `crash_points` | a crash, a freeze or a stop between any two steps |
//! | `at_once` | everything is due in the same millisecond |
//! | `chaos` | three replicas, and a schedule of everything at once |
//! | `kafka` | records, marks, refusals and crashes on a real Kafka |
//! | `pages` | what documentation, alerts and dashboard say is so |
//! | `admin` | what an operator sees and changes over HTTP |
//! | `page` | the web page, in a real browser |
//! | `operator` | the sub-commands that talk to a running xdelay |
//! | `scaling` | the model of docs/scaling.md, held against a simulation |
//! | `seeds` | what `fuzz/` begins with, without fuzzing |
//! | `versions` | two versions side by side, and what a newer one parked |
//! | `command` | `check`, `topology` and refusals, as an operator meets them |

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test may panic")]
#![allow(unreachable_pub, reason = "nothing is reached from outside a test binary")]

mod admin;
mod at_once;
mod broker_contract;
mod capture;
mod chaos;
mod command;
mod crash;
mod crash_points;
mod embedded_faults;
mod end_to_end;
mod fidelity;
mod kafka;
mod least_rights;
mod loops;
mod lua;
mod model;
mod network;
mod operator;
mod page;
mod pages;
mod proxy;
mod rebucket;
mod redis_cluster;
mod redis_faults;
mod redis_sentinel;
mod scaling;
mod seeds;
mod store_contract;
mod support;
mod tls;
mod traces;
mod user_id;
mod versions;
