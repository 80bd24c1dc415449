//! Our policy for the time until all jobs have ended. What is left of each is known.
//!
//! A linear program over classes of jobs, alone and in pairs, gives the shortest time in which the rest
//! can be done, what a step of each class is worth towards it, and what a GPU of each kind costs. A job
//! that alone needs nearly that time runs on the fastest kind in every round, and the program is solved
//! again without it. The others are chosen by what their steps are worth, more so the longer they need.

use super::{
    Allocation, Ground, RoundJob, RoundPolicy,
    jct::allocations,
    packing::{LEAST_GAIN, RoundValues},
};
use gpuwise_sched::linear::{Optimum, Steps, maximise};

/// A job that needs this part of the time for all is critical.
const CRITICAL: f64 = 0.9;
/// By how much more a step of a job is worth that needs all the time.
const URGENCY: f64 = 0.5;
/// The program is solved anew when jobs have come or ended, and after so many rounds.
const EVERY: u32 = 4;
/// Times that critical jobs are looked for.
const LOOKS: usize = 8;

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct MakespanAssignment {
    sharing: bool,
    outlook: Option<Outlook>,
}

/// What the program said when it was last solved.
#[derive(Debug, Clone, Default, PartialEq)]
struct Outlook {
    /// Jobs that were there.
    jobs: Vec<u32>,
    rounds: u32,
    critical: Vec<u32>,
    /// Shortest time for the others, in seconds.
    time_s: f64,
    /// What a step is worth, by class.
    step: Vec<f64>,
    /// What a GPU costs, by kind.
    gpu: Vec<f64>,
}

/// A column of the program: classes by their rows.
struct Column {
    kind: usize,
    gpus: f64,
    parts: [(usize, f64); 2],
}

impl MakespanAssignment {
    /// With or without sharing GPUs.
    pub(super) fn new(sharing: bool) -> Self {
        Self {
            sharing,
            outlook: None,
        }
    }

    /// The outlook, solved anew where it is time.
    fn look(&mut self, jobs: &[RoundJob], ground: &Ground<'_>, order: &[usize]) -> Outlook {
        let numbers: Vec<u32> = jobs.iter().map(|job| job.number).collect();
        if let Some(last) = &mut self.outlook
            && last.jobs == numbers
            && last.rounds < EVERY
        {
            last.rounds += 1;
            return last.clone();
        }
        let mut critical = 0;
        let mut found = Outlook::default();
        for _ in 0..LOOKS {
            let (first, rest) = order.split_at(critical);
            let mut free = ground.supply.to_vec();
            assignment(first, jobs, ground, &mut free);
            let Some(next) = self.solve(rest, jobs, ground, &free) else {
                break;
            };
            found = next;
            let least = CRITICAL * found.time_s;
            let more = rest
                .iter()
                .take_while(|job| needs(&jobs[**job], ground) >= least);
            match more.count() {
                0 => break,
                more => critical += more,
            }
        }
        found.jobs = numbers;
        found.critical = order[..critical]
            .iter()
            .map(|job| jobs[*job].number)
            .collect();
        self.outlook = Some(found.clone());
        found
    }

    /// The program for some of the jobs on what is free. `None`: there is nothing to do, or no way.
    fn solve(
        &self,
        which: &[usize],
        jobs: &[RoundJob],
        ground: &Ground<'_>,
        free: &[u32],
    ) -> Option<Outlook> {
        let mut classes: Vec<usize> = which.iter().map(|job| jobs[*job].class).collect();
        classes.sort_unstable();
        classes.dedup();
        let m = classes.len();
        let mut left = vec![0.0; m];
        let mut count = vec![0.0; m];
        for job in which.iter().map(|job| &jobs[*job]) {
            let row = classes.binary_search(&job.class).ok()?;
            left[row] += job.left.unwrap_or(1.0).max(1.0);
            count[row] += 1.0;
        }
        let columns = self.columns(&classes, &count, ground);
        let n = columns.len();
        let mut rows = vec![vec![0.0; n + 1]; 2 * m + free.len()];
        for (at, column) in columns.iter().enumerate() {
            for (row, speed) in column.parts.iter().filter(|(_, speed)| *speed > 0.0) {
                rows[*row][at] -= speed / left[*row];
                rows[m + row][at] += 1.0;
            }
            rows[2 * m + column.kind][at] = column.gpus;
        }
        rows[..m].iter_mut().for_each(|row| row[n] = 1.0);
        let mut limits = vec![0.0; m];
        limits.extend_from_slice(&count);
        limits.extend(free.iter().map(|count| f64::from(*count)));
        let mut goal = vec![0.0; n];
        goal.push(1.0);
        let Optimum { value, prices, .. } = maximise(&goal, &rows, &limits, Steps::USUAL)?;
        let mut step = vec![0.0; ground.speeds.classes().len()];
        for (row, class) in classes.iter().enumerate() {
            step[*class] = prices[row] / left[row];
        }
        (value > 0.0).then(|| Outlook {
            time_s: 1.0 / value,
            step,
            gpu: prices[2 * m..].to_vec(),
            ..Outlook::default()
        })
    }

    fn columns(&self, classes: &[usize], count: &[f64], ground: &Ground<'_>) -> Vec<Column> {
        let speeds = ground.speeds;
        let mut columns = Vec::new();
        for kind in 0..ground.supply.len() {
            for (row, class) in classes.iter().enumerate() {
                let gpus = speeds.gpus(*class);
                let mut push = |parts| {
                    columns.push(Column {
                        kind,
                        gpus: f64::from(gpus),
                        parts,
                    });
                };
                let speed = speeds.alone(*class, kind);
                if speed > 0.0 {
                    push([(row, speed), (row, 0.0)]);
                }
                let partners = classes.iter().enumerate().skip(row);
                for (other, partner) in partners.filter(|_| self.sharing) {
                    let fits = speeds.gpus(*partner) == gpus && (other != row || count[row] >= 2.0);
                    let gains =
                        (speeds.gain(kind, *class, *partner)).is_some_and(|g| g >= LEAST_GAIN);
                    if let (true, true, Some((one, two))) =
                        (fits, gains, speeds.beside(kind, *class, *partner))
                    {
                        push([(row, one), (other, two)]);
                    }
                }
            }
        }
        columns
    }
}

/// Time that a job still needs where it is fastest.
fn needs(job: &RoundJob, ground: &Ground<'_>) -> f64 {
    job.left.unwrap_or(0.0) / ground.speeds.best(job.class).max(1e-12)
}

/// Gives each in allocation the fastest kind that has room.
fn assignment(
    which: &[usize],
    jobs: &[RoundJob],
    ground: &Ground<'_>,
    free: &mut [u32],
) -> Vec<Allocation> {
    let mut allocations = Vec::new();
    for job in which {
        let class = jobs[*job].class;
        let gpus = ground.speeds.gpus(class);
        let speed = |kind: &usize| ground.speeds.alone(class, *kind);
        let kinds = (0..free.len()).filter(|kind| free[*kind] >= gpus && speed(kind) > 0.0);
        let best = kinds.rev().max_by(|a, b| speed(a).total_cmp(&speed(b)));
        if let Some(kind) = best {
            free[kind] -= gpus;
            allocations.push(Allocation {
                job: *job,
                partner: None,
                kind,
            });
        }
    }
    allocations
}

impl RoundPolicy for MakespanAssignment {
    fn shares_gpus(&self) -> bool {
        self.sharing
    }

    fn allocate(&mut self, _now_s: f64, jobs: &[RoundJob], ground: &Ground<'_>) -> Vec<Allocation> {
        let need: Vec<f64> = jobs.iter().map(|job| needs(job, ground)).collect();
        let mut order: Vec<usize> = (0..jobs.len()).collect();
        order.sort_by(|a, b| need[*b].total_cmp(&need[*a]).then(a.cmp(b)));
        let outlook = self.look(jobs, ground, &order);
        order.retain(|job| outlook.critical.contains(&jobs[*job].number));
        let mut free = ground.supply.to_vec();
        let mut chosen = assignment(&order, jobs, ground, &mut free);
        let mut without = vec![false; jobs.len()];
        for allocation in &chosen {
            without[allocation.job] = true;
        }
        let step: Vec<f64> = jobs
            .iter()
            .zip(&need)
            .map(|(job, need)| {
                // Where the program does not care for a class, half of the least that a step costs.
                let gpus = f64::from(ground.speeds.gpus(job.class));
                let costs = ground.speeds.row(job.class).iter().enumerate();
                let cheap = costs
                    .filter(|(_, speed)| **speed > 0.0)
                    .map(|(kind, speed)| {
                        outlook.gpu.get(kind).copied().unwrap_or(0.0).max(1e-12) * gpus / speed
                    })
                    .fold(f64::INFINITY, f64::min);
                let cheap = if cheap.is_finite() { cheap } else { 0.0 };
                let worth = outlook.step.get(job.class).copied().unwrap_or(0.0);
                let urgent = (need / outlook.time_s.max(1.0)).min(2.0);
                worth.max(cheap / 2.0) * (1.0 + URGENCY * urgent)
            })
            .collect();
        let worths = RoundValues {
            jobs,
            ground,
            step: &step,
            without: &without,
        };
        let mut choices = worths.alone();
        if self.sharing {
            worths.pairs(&mut choices);
        }
        chosen.extend(allocations(&choices, jobs.len(), &free));
        chosen
    }

    fn idle(&mut self) {
        self.outlook = None;
    }
}
