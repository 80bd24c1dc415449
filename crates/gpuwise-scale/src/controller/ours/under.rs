//! A controller goes on with what is known from elsewhere, and by other rules.

use super::Gpuwise;
use crate::{
    cold::{ColdStart, Level},
    controller::Rules,
};

impl Gpuwise {
    /// How long starts take is known from elsewhere: from starts of the same model on the same class of nodes.
    pub fn know_start(&mut self, cold: &ColdStart) {
        self.cold = *cold;
        self.start = cold.at(Level::P90);
    }

    /// The same by other rules: what was learned of demand stays, as far as these say the same of how it is looked at.
    #[must_use]
    pub fn under(self, rules: Rules) -> Self {
        let mut new = Self::new(rules);
        let (before, now) = (&self.rules, &new.rules);
        if (before.rate - now.rate).abs() < f64::EPSILON {
            new.serving = self.serving;
            new.all = self.all;
        }
        if before.start == now.start {
            new.cold = self.cold;
            new.start = self.start;
        }
        let promised = (before.objective - now.objective).abs() < f64::EPSILON;
        let counted = before.tokens == now.tokens;
        let period = before.period == now.period;
        let answers = self.answers.filter(|_| counted);
        new.answers = answers.map(|one| Box::new(one.under(new.stream.clone(), period, promised)));
        if counted {
            new.stream = self.stream.under(new.stream, period, promised);
        }
        new.waiting = self.waiting;
        new.last = self.last;
        new.started = self.started;
        new.doubt = self.doubt;
        new.asked = self.asked;
        new.wanted = self.wanted;
        new
    }
}
