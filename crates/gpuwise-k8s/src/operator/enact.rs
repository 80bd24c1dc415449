//! What was decided is written.

use super::{
    lead::Term,
    look::Looks,
    say::{proposal, proposed},
};
use crate::{
    manifests::Mode,
    steer::{Decision, Seen, Waits},
};
use gpuwise_units::Nanoseconds;

impl Looks {
    /// Writes what was decided; whether all of it was written.
    pub(super) async fn carry_out(
        &mut self,
        term: &Term,
        seen: &Seen,
        decision: &Decision,
        now: Nanoseconds,
    ) -> bool {
        if self.mode == Mode::Observe {
            return true;
        }
        self.plan += 1;
        let plan = format!("{}.{}", term.number, self.plan);
        let mut whole = true;
        let nodes = self.judge(term, seen, decision, &plan, now).await;
        if self.mode == Mode::Act {
            whole &= self.release(term, seen, &decision.placed, &plan).await;
            whole &= self.let_go(term, seen, &decision.let_go).await;
            whole &= self.make_room(term, seen, decision, &plan).await;
        } else {
            let placed = decision.placed.iter().map(proposal);
            let all: Vec<Waits> = placed.chain(proposed(&decision.rooms)).collect();
            whole &= self.say(term, seen, &all, &plan).await;
        }
        let told = |one: &&Waits| !nodes.iter().any(|other| other.pod == one.pod);
        let waits: Vec<Waits> = decision.waits.iter().filter(told).cloned().collect();
        whole &= !std::mem::take(&mut self.unwritten);
        whole &= self.say(term, seen, &nodes, &plan).await;
        whole & self.say(term, seen, &waits, &plan).await
    }
}
