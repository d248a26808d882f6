//! RabbitMQ: what stands in it, and who publishes, consumes and relays.

pub(crate) mod consumer;
pub(crate) mod idlers;
pub(crate) mod publisher;
pub(crate) mod relay;
pub(crate) mod topology;
