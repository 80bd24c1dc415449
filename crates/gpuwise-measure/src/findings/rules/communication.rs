//! Communication under which nothing is computed.

use super::straggler;
use crate::findings::{
    Signals,
    ledger::{Cause, Ledger},
    lost::Lost,
    rule::{CERTAIN_KERNEL, Profile, Rank, Row, Rule},
};
use gpuwise_domain::profile::finding::{Finding, FindingDefinition};

pub(in crate::findings) const CAUSE: Cause = Cause("communication");

const SHARE: Row = Row {
    name: "communication_share",
    value: 0.1,
    unit: "share of the span",
    meaning: "exposed communication, waiting for late ranks left out, from which communication is said",
    source: "pytorch/kineto tb_plugin torch_tb_profiler/profiler/data.py: communication beyond 10 %",
};

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "communication",
        title: "communication",
        signal: "Communication under which nothing was computed, without the wait for a straggler, is `communication_share` or more.",
        advice: "Overlap it (buckets, prefetch), fewer bytes (compression, accumulation), placement within NVLink, other parallel sizes.",
        gain: "high: the exposed time; low: `certain_kernel` of it.",
        source: "pytorch/kineto tb_plugin data.py; facebookresearch/HolisticTraceAnalysis comm-comp overlap",
    },
    thresholds: &[SHARE, CERTAIN_KERNEL],
    charge,
    find,

    ..Rule::EMPTY
};

/// What ranks waited for a straggler is that finding's.
fn find(profile: &Profile<'_>) -> Vec<Finding> {
    let straggler = straggler::slowest(profile);
    let waited = |place: usize, of: &Signals| {
        let waited = straggler.as_ref().map(|one| one.waited(profile, place, of));
        waited.unwrap_or(0.0)
    };
    let lost = Lost::but(profile, CAUSE, &SHARE, waited);
    lost.map(|lost| {
        let statement = format!(
            "Communication that nothing hides took {}, most of it {}",
            lost.of_the_time(),
            lost.first()
        );
        let advice = format!(
            "Hide or shrink {}: overlap with the backward pass (bucket size), fewer or smaller messages, ranks of a group within one {} domain.",
            lost.listed(),
            if profile.stack.is_amd() {
                "Infinity Fabric"
            } else {
                "NVLink"
            }
        );
        lost.finding(1.0, statement, &[&advice], Vec::new())
    })
    .into_iter()
    .collect()
}

fn charge(rank: &Rank<'_>, ledger: &mut Ledger<'_>) {
    let certain = rank.limits.of(&CERTAIN_KERNEL);
    let mut until = i64::MIN;
    for (place, &(start, end, index)) in rank.ordered.pieces.iter().enumerate() {
        let Some(work) = rank.timeline.work.get(index as usize) else {
            continue;
        };
        if rank
            .ordered
            .traits_of(work)
            .is_some_and(|t| t.communication)
        {
            let from = start.max(until);
            until = until.max(end);
            // Waiting of a pipeline's stage is that finding's.
            if ledger.is_spared(place) {
                continue;
            }
            let exposed = &rank.ordered.only_communicating;
            let ns = exposed.overlap_range(from, end.max(from));
            let at_least = (ns as f64 * certain) as i64;
            ledger.charge_work(CAUSE, place, ns, (at_least, end - start));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{Made, check};
    #[test]
    fn communication() {
        let all_reduce = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
        let reducing = |made: &mut Made, hidden: bool| {
            for round in 0..10 {
                let at = round * 1000 + 10;
                made.kernel(all_reduce, at, at + 400, 6).stream = 1;
                let start = if hidden { at } else { at + 400 };
                made.kernel("some_kernel", start, at + 995, 500);
            }
        };
        check(
            "communication",
            |made| reducing(made, false),
            |made| reducing(made, true),
        );
    }
}
