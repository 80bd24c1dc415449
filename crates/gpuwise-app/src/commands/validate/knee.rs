//! The knee: the largest load that holds, under each seed.

use super::{
    CLIMB, HIGHEST, LOWEST, Trial,
    judge::{holds, limited_by, rung},
};
use gpuwise_domain::run::{Knee, RunReport, Rung};
use gpuwise_units::PerSecond;

/// Halvings of the logarithm between the last load that holds and the first that does not.
const BISECTIONS: usize = 6;

/// A load that was run under a seed.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Point {
    /// As a multiple of the expected one.
    load: f64,
    /// What was delivered, in the unit of loads.
    delivered: f64,
}

/// Between which loads the knee of a seed lies. Both were run, where they are there.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Bracket {
    held: Option<Point>,
    broke: Option<Point>,
}

impl Bracket {
    fn learn(&mut self, point: Point, held: bool) {
        if held {
            self.held = Some(point);
        } else {
            self.broke = Some(point);
        }
    }

    /// The load to run next until both ends are there: away from the one that is, by `CLIMB`; `from`
    /// where none is. `None` where both are, or it would be too far.
    fn next(&self, from: f64) -> Option<f64> {
        let load = match (self.held, self.broke) {
            (Some(_), Some(_)) => return None,
            (Some(held), None) => held.load * CLIMB,
            (None, Some(broke)) => broke.load / CLIMB,
            (None, None) => from,
        };
        (LOWEST..=HIGHEST).contains(&load).then_some(load)
    }

    fn middle(&self) -> Option<f64> {
        Some((self.held?.load * self.broke?.load).sqrt())
    }
}

impl Trial<'_> {
    /// The largest load that holds, by bisection under each seed, from ends that were run under it; and
    /// the loads that were run for that under the first seed, rising.
    pub(super) fn knee(
        &self,
        rungs: &[(f64, RunReport)],
    ) -> anyhow::Result<(Option<Knee>, Vec<Rung>)> {
        let mut near = Vec::new();
        let broken = rungs.iter().filter(|(_, report)| !holds(report));
        let Some((first_broken, mut gave_way)) = broken
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(load, report)| (*load, report.clone()))
        else {
            return Ok((None, near));
        };
        let held = rungs
            .iter()
            .filter(|(load, report)| holds(report) && *load < first_broken);
        let Some((last_held, report)) = held.max_by(|a, b| a.0.total_cmp(&b.0)) else {
            return Ok((None, near));
        };
        let mut brackets = vec![Bracket::default(); self.seeds.len()];
        if let Some(first) = brackets.first_mut() {
            first.learn(self.point(*last_held, report), true);
            first.learn(self.point(first_broken, &gave_way), false);
        }
        // Other seeds may break sooner or later than the first.
        loop {
            let next = |bracket: &Bracket| bracket.next(*last_held);
            let (count, _) =
                self.run_each(&mut brackets, &mut near, next, "the range of the knee")?;
            if count == 0 {
                break;
            }
        }
        for step in 1..=BISECTIONS {
            let what = format!("the knee, {step} of {BISECTIONS}");
            let (_, broken) = self.run_each(&mut brackets, &mut near, Bracket::middle, &what)?;
            gave_way = broken.unwrap_or(gave_way);
        }
        near.sort_by(|a: &Rung, b| a.load.total_cmp(&b.load));
        Ok((self.between(&brackets, &gave_way), near))
    }

    /// What a load came to, in the unit of loads: what was delivered, where requests come at a rate by chance.
    fn point(&self, load: f64, report: &RunReport) -> Point {
        let nominal = load * self.sent.expected();
        let by_chance = self.sent.exact_rate().is_none();
        let delivered = report.traffic.delivered.filter(|_| by_chance);
        let delivered = delivered.map(PerSecond::get);
        Point {
            load,
            delivered: delivered.unwrap_or(nominal),
        }
    }

    /// Runs each seed at the load that `next` says, those of the first seed into `near`: how many it says one for, and the last run that did
    /// not hold, if one did not.
    fn run_each(
        &self,
        brackets: &mut [Bracket],
        near: &mut Vec<Rung>,
        next: impl Fn(&Bracket) -> Option<f64>,
        what: &str,
    ) -> anyhow::Result<(usize, Option<RunReport>)> {
        let mut places = Vec::new();
        let mut runs = Vec::new();
        for ((place, bracket), seed) in brackets.iter().enumerate().zip(&self.seeds) {
            if let Some(load) = next(bracket) {
                places.push((place, load));
                runs.push(self.one(load, *seed));
            }
        }
        if runs.is_empty() {
            return Ok((0, None));
        }
        let count = runs.len();
        let mut broken = None;
        for ((place, load), report) in places.into_iter().zip(self.many(&runs, what)?) {
            let held = holds(&report);
            if place == 0 {
                let nominal = load * self.sent.expected();
                near.push(rung(None, nominal, &report, &self.slo));
            }
            if let Some(bracket) = brackets.get_mut(place) {
                bracket.learn(self.point(load, &report), held);
            }
            if !held {
                broken = Some(report);
            }
        }
        Ok((count, broken))
    }

    /// The median of what each seed carried, from the lowest to the highest.
    fn between(&self, brackets: &[Bracket], gave_way: &RunReport) -> Option<Knee> {
        // A seed under which no load holds carries nothing.
        let nothing = Point {
            load: 0.0,
            delivered: 0.0,
        };
        let held = brackets
            .iter()
            .map(|bracket| bracket.held.unwrap_or(nothing));
        let mut knees: Vec<Point> = held.collect();
        knees.sort_by(|a, b| a.delivered.total_cmp(&b.delivered));
        let middle = knees.get(knees.len() / 2)?;
        let nominal = middle.load * self.sent.expected();
        let same = middle.delivered.total_cmp(&nominal).is_eq();
        Some(Knee {
            load: middle.delivered,
            nominal: (!same).then_some(nominal),
            low: knees.first()?.delivered,
            high: knees.last()?.delivered,
            seeds: knees.len() as u64,
            limited_by: limited_by(gave_way),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Bracket, Point};

    /// Looks for both ends as a seed would whose SLO holds up to `knee`.
    fn search(knee: f64, from: f64) -> (Bracket, Vec<f64>) {
        let (mut bracket, mut run) = (Bracket::default(), Vec::new());
        while let Some(load) = bracket.next(from) {
            run.push(load);
            let point = Point {
                load,
                delivered: load,
            };
            bracket.learn(point, load <= knee);
        }
        (bracket, run)
    }

    #[test]
    fn both_ends_of_a_bracket_were_run_and_hold_the_knee() {
        for knee in [0.01, 0.3, 0.99, 1.0, 3.0, 17.0] {
            let (bracket, run) = search(knee, 1.0);
            let held = bracket.held.map(|point| point.load).expect("a lower end");
            let broke = bracket.broke.map(|point| point.load).expect("an upper end");
            assert!(held <= knee && knee < broke, "{knee}: {bracket:?}");
            assert!(run.contains(&held) && run.contains(&broke), "{run:?}");
        }
    }

    #[test]
    fn a_search_without_an_end_ends() {
        assert_eq!(search(0.0, 1.0).0.held, None);
        assert_eq!(search(1e9, 1.0).0.broke, None);
    }
}
