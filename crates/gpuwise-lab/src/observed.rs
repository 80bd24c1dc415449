//! Rows against what is predicted for them, and what they say of steps.

use crate::{
    Rows,
    answer::{Reading, figure, place, read, solve},
    canonical,
};
use gpuwise_domain::question::Question;
use gpuwise_size::{
    constants::Constants,
    knowledge::{
        Corrections, Feedback, Knowledge, MeasuredSystem, MetricClass, Observation, Sensitivity,
    },
};
use std::collections::BTreeMap;

/// A row that says something, by its place among the rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// The row's place, from 0.
    pub row: usize,
    pub observation: Observation,
}

/// Rows with a measured value as observations, with the places of their rows; rows that cannot be answered say
/// nothing.
///
/// How far a figure moves with steps is asked twice: where nothing is corrected, and where all rows together put it.
/// Then first tokens are compared with what those steps make of them.
pub fn observed(rows: Rows<'_>, knowledge: &Knowledge) -> Vec<Observed> {
    let Rows {
        asked,
        models,
        loaded,
    } = rows;
    let mut found: Vec<(Measured<'_>, Observed)> = asked
        .iter()
        .enumerate()
        .filter_map(|(row, asked)| {
            let question = &asked.question;
            let architecture = models.get(&question.model)?.as_ref().ok()?;
            let reading = read(question, architecture, &loaded.catalogue).ok()?;
            let constants = knowledge.constants(reading.setup.engine.kind);
            let measured = Measured::of(question, reading, constants)?;
            let system =
                MeasuredSystem::of(&measured.reading.setup, &canonical(question, loaded).model);
            let observation = measured.observation(system)?;
            Some((measured, Observed { row, observation }))
        })
        .collect();
    for first in [false, true] {
        let feedback = Feedback {
            observations: found
                .iter()
                .map(|(_, seen)| &seen.observation)
                .filter(|seen| !seen.class.is_first_token())
                .cloned()
                .collect(),
        };
        let mut systems = BTreeMap::new();
        for (measured, Observed { observation, .. }) in &mut found {
            if observation.class.is_first_token() != first {
                continue;
            }
            let layout = observation.place.layout;
            let corrections = systems
                .entry((observation.system.clone(), layout))
                .or_insert_with(|| feedback.corrections(&observation.system, layout));
            if first {
                measured.wait(corrections, observation);
            } else {
                measured.near(corrections, observation);
            }
        }
    }
    found.into_iter().map(|(_, observed)| observed).collect()
}

/// A row whose run is known, with what was measured of it in SI units.
struct Measured<'a> {
    reading: Reading<'a>,
    constants: &'a Constants,
    value: f64,
}

/// By how much the logarithm of a factor is moved to see what that does.
const NUDGE: f64 = 0.05;
/// The farthest that a figure is taken to move with steps.
const MOST_SENSITIVE: f64 = 3.0;

impl<'a> Measured<'a> {
    fn of(question: &Question, reading: Reading<'a>, constants: &'a Constants) -> Option<Self> {
        let scale = if question.unit == "ms" { 1e-3 } else { 1.0 };
        let value = question.value.filter(|value| *value > 0.0)? * scale;
        Some(Self {
            reading,
            constants,
            value,
        })
    }

    /// By how much the row is off, and how far its figure moves with its steps.
    fn observation(&self, system: MeasuredSystem) -> Option<Observation> {
        let outcome = solve(&self.reading, self.constants)?;
        let none = Corrections::default();
        let residual = self.off(&none)?;
        Some(Observation {
            place: place(&self.reading, Some(&outcome)),
            system,
            class: MetricClass::of(self.reading.wanted),
            residual,
            linear: residual,
            sensitivity: self.sensitivity(&none)?,
        })
    }

    /// ln(measured / predicted) with these corrections.
    fn off(&self, corrections: &Corrections) -> Option<f64> {
        let mut reading = self.reading.clone();
        reading.setup.corrections = corrections.clone();
        if let Some(pool) = &mut reading.prefill {
            pool.setup.corrections = corrections.clone();
        }
        let outcome = solve(&reading, self.constants)?;
        let off = (self.value / figure(&reading, &outcome, self.constants)).ln();
        off.is_finite().then_some(off)
    }

    /// How far the figure moves with steps that decode and with prompts, where they are corrected so.
    fn sensitivity(&self, corrections: &Corrections) -> Option<Sensitivity> {
        let off = self.off(corrections)?;
        let moved = |steps: f64, prompts: f64| {
            let nudged = corrections.times(steps.exp(), prompts.exp());
            let moved = (off - self.off(&nudged)?) / NUDGE;
            Some(moved.clamp(-MOST_SENSITIVE, MOST_SENSITIVE))
        };
        Some(Sensitivity {
            steps: moved(NUDGE, 0.0)?,
            prompts: moved(0.0, NUDGE)?,
        })
    }

    /// The row about these corrections as if its figure moved all the way as fast as it does there.
    fn near(&self, corrections: &Corrections, seen: &mut Observation) {
        let (Some(sensitivity), Some(off)) = (self.sensitivity(corrections), self.off(corrections))
        else {
            return;
        };
        let steps = corrections.of_steps(&seen.place).ln();
        let prompts = corrections.of_prompts(&seen.place).ln();
        seen.linear = off + sensitivity.steps * steps + sensitivity.prompts * prompts;
        seen.sensitivity = sensitivity;
    }

    /// A first token as it is beyond what these steps make of it.
    fn wait(&self, corrections: &Corrections, seen: &mut Observation) {
        if let Some(off) = self.off(corrections) {
            seen.linear = off;
            seen.place.first = Some(self.value / off.exp());
        }
    }
}
