//! Clients that change nothing but the URL.

mod access;
mod bytes;
mod captures;
mod clients;
mod conformance;
mod crash;
mod delays;
mod migration;
mod plugin;
mod refusals;
mod slow;
mod streams;
mod support;
