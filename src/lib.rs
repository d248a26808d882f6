//! xdelay holds messages back. It stands beside a RabbitMQ or Kafka that is there already: a producer adds
//! one header, `x-delay: 5000`, to a publish it makes anyway, and the consumers, who know nothing
//! of it, get the message five seconds later.
//!
//! # The life of a message
//!
//! ```text
//!   producer                                                              consumer
//!      |  publish to xdelay.orders, x-delay: 5000                            ^
//!      v                                                                     |
//!  +--------+   capture   +--------+    ack                            +-----------+
//!  | broker | ----------> | intake | ------> broker                    |  orders   |
//!  +--------+             +--------+                                   +-----------+
//!                             | park                                         ^
//!                             v                                              | publish
//!       store:  ( parked ) --------- claim, when due ---------> ( leased ) --+
//!                 ^  |  ^                                        |   |   |
//!                 |  |  +------- postpone: could not be released +   |   |
//!                 |  |  +------- recover: its holder is gone --------+   |
//!                 |  |                                                   | confirmed:
//!                 |  +--- replace, cancel ---> gone <---- settle --------+ settle
//!                 |                                                      |
//!                 +--- revive --------- ( dead ) <------ bury ------------+
//! ```
//!
//! Each arrow inside the store is one script in `lua/`, and happens whole or not at all. An operator
//! has arrows of their own, which end where those of the loops do: cancel, reschedule, revive, and
//! withdraw, which buries what is parked.
//!
//! # The two laws
//!
//! 1. **No ack before a durable park.** [`broker::Receipt::ack`] takes a [`store::Secured`], which
//!    only a store or a broker can make.
//! 2. **No removal before a confirmed, routed release.** [`store::Store::settle`] takes a
//!    [`broker::Released`], which only a broker can make.
//!
//! So a message is always in one safe place at least, and what a crash costs is a duplicate,
//! never a loss. Whether something is due is decided by the store's clock alone, and a due is
//! always rounded up: nothing is ever early.
//!
//! # Where things are
//!
//! Two loops between two seams: [`intake`] and [`release`], between [`broker`] and [`store`].
//! Read those four first.
//!
//! | module | holds |
//! | --- | --- |
//! | [`intake`] | loop 1: delivery, park, ack |
//! | [`release`] | loop 2, one for each destination: claim, publish, settle |
//! | [`recover`] | loop 3: gives back what lost holders had leased |
//! | [`broker`] | the seam to brokers, and RabbitMQ and Kafka behind it |
//! | [`store`] | the seam to stores, and Redis behind it |
//! | [`proxy`] | the port for producers that change nothing but the URL |
//! | [`message`], [`delay`] | what is carried; what its producer asked for |
//! | [`destinations`], [`alarm`] | every destination there is; what wakes its release loop |
//! | [`dead`] | how many dead a destination may have, and what then |
//! | [`clock`], [`retry`], [`shutdown`] | time, patience, and the end |
//! | [`health`], [`finding`], [`metrics`], [`history`], [`traces`] | what xdelay knows of itself, and tells |
//! | [`admin`] | what an operator sees and changes, over HTTP and on a page |
//! | [`config`], [`app`] | what an operator sets; how it all is put together |
//! | [`crash`] | where tests let it die; empty in every other build |

#![forbid(unsafe_code)]

pub mod admin;
pub mod alarm;
pub mod app;
pub mod broker;
pub mod clock;
pub mod config;
pub mod crash;
pub mod dead;
pub mod delay;
pub mod destinations;
pub mod finding;
pub mod health;
pub mod history;
pub mod intake;
pub mod message;
pub mod metrics;
pub mod proxy;
pub mod recover;
pub mod release;
pub mod retry;
pub mod shutdown;
pub mod store;
mod tls;
pub mod traces;
