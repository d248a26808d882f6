//! An operator, who asks a replica over HTTP. The answer may be late or lost, and the replica may end
//! before or after it did what was asked: then the operator asks the other one for the same.

use std::slice::from_ref;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use xdelay::message::Destination;
use xdelay::store::{Handle, Steer, Step};

use super::gate::{Gate, Passage};
use crate::support::witness::Witness;

/// How long an answer is waited for: longer than any call is held up.
const PATIENCE: Duration = Duration::from_secs(4);
/// How often the same is asked for.
const ASKS: usize = 3;

pub struct Operator {
    pub witness: Arc<Witness>,
    /// The way to each replica; the first is asked first.
    pub gates: [Gate; 2],
}

impl Operator {
    /// Asks until there is an answer, whatever it is.
    pub async fn ask(self, of: Destination, step: Step, whom: Handle) {
        for gate in self.gates.iter().cycle().take(ASKS) {
            if timeout(PATIENCE, self.call(gate, &of, &step, &whom)).await == Ok(true) {
                return;
            }
        }
    }

    /// One request; says whether it was answered.
    async fn call(&self, gate: &Gate, of: &Destination, step: &Step, whom: &Handle) -> bool {
        let (passage, fate) = gate.enter("steer").await;
        if passage == Passage::Refused {
            return false;
        }
        // The witness hears what the store did, also when nobody else will.
        let _ = self.witness.steer(of, step, from_ref(whom)).await.expect("an answer");
        gate.leave(fate).await;
        passage == Passage::Made
    }
}
