//! When requests came, and which base model each asked for: what the trace does not record.

use gpuwise_domain::placement::ServingDay;
use gpuwise_units::RandomStream;

/// A step of the trace in nanoseconds.
const STEP: f64 = 57e9;
/// Base loads beyond this came from far; below it the model was in the host's memory. Measured loads
/// have two humps, from 1 to 6 s and from 18 to 50 s, with 3 in 100 between them.
pub(super) const FAR: u64 = 10_000_000_000;

/// A request as it comes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub(super) at: u64,
    /// The base model that it changes to, where it changes it.
    pub(super) model: Option<u32>,
}

/// Arrivals by holder and request, and loading times as measured.
#[derive(Debug)]
pub(super) struct Arrivals {
    pub(super) of: Vec<Vec<Arrival>>,
    /// What bringing a container back from host memory takes: the median of base loads that were near.
    pub(super) warm: u64,
    /// By holder, what loading its base model from far takes: the median of its own such loads.
    pub(super) cold: Vec<u64>,
    /// Half of a mean inference: what somebody who computes at a random moment still needs.
    pub(super) half_run: u64,
}

impl Arrivals {
    /// In each holder steps have a phase of their own. A request comes at its step's phase, or when
    /// the one before ended on a GPU of its own: measured queues show that nobody waited for it.
    pub(super) fn new(day: &ServingDay, seed: u64) -> Self {
        let mut all_near = Vec::new();
        let mut all_far = Vec::new();
        let mut cold = Vec::new();
        let mut of = Vec::new();
        let total: u64 = day.popularity.iter().map(|count| u64::from(*count)).sum();
        let (mut runs, mut count) = (0_u64, 0_u64);
        for holder in &day.holders {
            let entity = u64::from(holder.number);
            let phase = (RandomStream::new(seed, "phase", entity).uniform() * STEP) as u64;
            let mut models = RandomStream::new(seed, "base model", entity);
            let (mut free, mut present) = (0_u64, None);
            let mut far = Vec::new();
            let mut list = Vec::with_capacity(holder.requests.len());
            for request in &holder.requests {
                let at = free.max(u64::from(request.step_s) * 1_000_000_000 + phase);
                let model = request.base.map(|base| {
                    if base.0 < FAR {
                        all_near.push(base.0);
                    } else {
                        far.push(base.0);
                    }
                    another(&mut models, &day.popularity, total, present)
                });
                present = model.or(present);
                list.push(Arrival { at, model });
                free = at + request.queue.0 + request.load.0 + request.run.0;
                runs += request.run.0;
                count += 1;
            }
            all_far.extend_from_slice(&far);
            cold.push(median(far));
            of.push(list);
        }
        let (near, far) = (median(all_near), median(all_far));
        let warm = near.or(far).unwrap_or(0);
        Self {
            of,
            warm,
            cold: cold
                .into_iter()
                .map(|own| own.or(far).unwrap_or(warm))
                .collect(),
            half_run: runs / count.max(1) / 2,
        }
    }

    /// The first arrival.
    pub(super) fn first(&self) -> u64 {
        let firsts = self.of.iter().filter_map(|list| list.first());
        firsts.map(|arrival| arrival.at).min().unwrap_or(0)
    }
}

/// A base model other than the present one, as often as the log of requests asks for each.
fn another(random: &mut RandomStream, popularity: &[u32], total: u64, present: Option<u32>) -> u32 {
    let mut drawn = 0;
    // With one model there is no other: it is drawn again.
    for _ in 0..64 {
        let mut at = if total > 0 { random.below(total) } else { 0 };
        drawn = 0;
        for count in popularity {
            if at < u64::from(*count) {
                break;
            }
            at -= u64::from(*count);
            drawn += 1;
        }
        if Some(drawn) != present {
            break;
        }
    }
    drawn
}

fn median(mut values: Vec<u64>) -> Option<u64> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}
