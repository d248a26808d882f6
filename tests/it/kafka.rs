//! Kafka: the binary, clients that are not ours, a real broker and a real Redis.

mod crash;
mod crash_points;
mod end_to_end;
mod fidelity;
mod injected;
mod marks;
mod membership;
mod raw_header;
mod refusal;
