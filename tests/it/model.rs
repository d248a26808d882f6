//! A model of the protocol: the real loops of two replicas between a store and a broker in memory, on a
//! clock that stands still, through every mishap between two calls.
//!
//! Every call to the store or the broker, an operator's included, passes a [gate](gate), which may lose it, lose its answer,
//! hold up either beyond the lease, or end the replica before or after it. A [story](story) says what
//! producers and operators do and what becomes of which call. When it is told all faults end, time runs
//! on, and the [invariants](crate::support::invariants) are held against what was seen.
//!
//! * [`exhaustive`]: short scenes, each with each mishap at each call, and so every crash point.
//! * [`random`]: stories of anything, shrunk to the shortest one that still breaks a promise.
//!
//! `MODEL_CASES=20000` tells more random stories than the usual number, `MODEL_SEED` others,
//! `MODEL_PAIRS=1` every pair of mishaps; `MODEL_TRACE=1` shows every call of a story that fails.

mod broker;
mod exhaustive;
mod gate;
mod operator;
mod random;
mod scene;
mod store;
mod story;
mod world;
