//! Ways of sharing in which nobody ever moves.

use super::{Assumptions, DayRun, GenaiError, Sharing, Tally, arrivals::Arrivals};
use gpuwise_domain::placement::{ServingDay, ServingHolder, SliceAsk};
use gpuwise_sched::mig;
use std::collections::BTreeMap;

/// A GPU for each container: waits are those of the trace. There are as many GPUs as containers were
/// measured at once.
pub(super) fn dedicated(day: &ServingDay, arrivals: &Arrivals) -> Option<DayRun> {
    let mut tally = Tally::new();
    for (holder, list) in day.holders.iter().zip(&arrivals.of) {
        for (request, arrival) in holder.requests.iter().zip(list) {
            let wait = request.queue.0 + request.load.0;
            tally.add(arrival.at, arrival.at + wait + request.run.0, request.run);
        }
    }
    let mut at_once: BTreeMap<u32, u32> = BTreeMap::new();
    for (from, _) in day.holders.iter().flat_map(|holder| &holder.memory) {
        *at_once.entry(*from).or_default() += 1;
    }
    let gpus = at_once.values().copied().max()?;
    tally.sum_up(Sharing::Dedicated, gpus, arrivals.first())
}

/// Which GPU each container is on for good.
pub(super) struct Homes {
    pub(super) of: Vec<u32>,
    pub(super) gpus: u32,
}

/// First fit by the most memory that each ever had, the largest first: what sharing needs if nobody is
/// ever to be moved.
pub(super) fn homes(day: &ServingDay, gpu_mib: u32) -> Homes {
    let mut order: Vec<usize> = (0..day.holders.len()).collect();
    let peak = |at: &usize| day.holders.get(*at).map_or(0, ServingHolder::peak_mib);
    order.sort_by_key(|at| std::cmp::Reverse(peak(at)));
    let mut free: Vec<u32> = Vec::new();
    let mut of = vec![0; day.holders.len()];
    for at in order {
        let mib = peak(&at);
        let home = free
            .iter()
            .position(|free| *free >= mib)
            .unwrap_or_else(|| {
                free.push(gpu_mib);
                free.len() - 1
            });
        if let (Some(free), Some(slot)) = (free.get_mut(home), of.get_mut(at)) {
            *free -= mib;
            *slot = home as u32;
        }
    }
    Homes {
        of,
        gpus: free.len() as u32,
    }
}

/// A MIG instance for each container, and inference slower by the compute slices that it lacks.
pub(super) fn slices(
    day: &ServingDay,
    arrivals: &Arrivals,
    assumptions: &Assumptions,
) -> Result<DayRun, GenaiError> {
    let geometry = assumptions.board.as_ref().ok_or(GenaiError::NoBoard)?;
    let mut wanted = vec![0_u32; geometry.shapes.len()];
    let mut tally = Tally::new();
    for (holder, list) in day.holders.iter().zip(&arrivals.of) {
        let ask = SliceAsk {
            memory_mib: holder.peak_mib(),
            ..SliceAsk::default()
        };
        let shape = mig::by_cost(geometry, &ask).first().copied();
        let (Some(shape), Some(row)) = (shape, shape.and_then(|shape| geometry.shape(shape)))
        else {
            return Err(GenaiError::TooLarge {
                container: holder.number,
                mib: ask.memory_mib,
                gpu_mib: geometry
                    .shapes
                    .iter()
                    .filter_map(|s| s.memory_mib)
                    .max()
                    .unwrap_or(0),
            });
        };
        if let Some(count) = wanted.get_mut(usize::from(shape)) {
            *count += 1;
        }
        let mut free = 0;
        for (request, arrival) in holder.requests.iter().zip(list) {
            let slowed = u128::from(request.run.0) * u128::from(geometry.compute_slices)
                / u128::from(row.compute);
            let begun = free.max(arrival.at + request.queue.0);
            free = begun + request.load.0 + slowed as u64;
            tally.add(arrival.at, free, request.run);
        }
    }
    let boards = mig::fewest(geometry, &wanted, 20_000).map_err(|_| GenaiError::NoBoard)?;
    let run = tally.sum_up(Sharing::Slices, boards.worth as u32, arrivals.first());
    run.ok_or(GenaiError::Empty)
}
