//! Kernels leave multiprocessors empty.

use super::small_kernels::SMALL;
use crate::findings::{
    ledger::{Cause, Ledger},
    lost::Lost,
    rule::{CERTAIN_KERNEL, Profile, Rank, Row, Rule},
    work::launch_of,
};
use gpuwise_domain::profile::finding::{Finding, FindingDefinition};

const CAUSE: Cause = Cause("low_occupancy");

const SHARE: Row = Row {
    name: "occupancy_share",
    value: 0.1,
    unit: "share of the span",
    meaning: "time lost by such kernels from which low occupancy is said",
    source: "-",
};

const BLOCKS: Row = Row {
    name: "occupancy_blocks",
    value: 0.5,
    unit: "blocks a multiprocessor",
    meaning: "a kernel with fewer blocks leaves multiprocessors empty",
    source: "pytorch/kineto tb_plugin docs/gpu_utilization.md, SM efficiency",
};

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "low_occupancy",
        title: "multiprocessors empty",
        signal: "Kernels of `small_kernel_ns` or longer with fewer than `occupancy_blocks` blocks a multiprocessor lose `occupancy_share` of the span or more.",
        advice: "Larger batches or tiles split over more blocks (split-K, stream-K), several streams; or a smaller GPU or slice.",
        gain: "high: their time × (1 − blocks a multiprocessor); low: `certain_kernel` of it.",
        source: "pytorch/kineto tb_plugin docs/gpu_utilization.md, SM efficiency",
    },
    thresholds: &[BLOCKS, SHARE, SMALL, CERTAIN_KERNEL],
    charge,
    find,
    same_kernels: true,
    ..Rule::EMPTY
};

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    Lost::said(profile, CAUSE, &SHARE, |lost| {
        let statement = format!(
            "Kernels that leave most multiprocessors empty lost {}, most of it {}",
            lost.of_the_time(),
            lost.first()
        );
        let advice = format!(
            "Give {} more blocks: a larger batch, split-K, several streams{}.",
            lost.listed(),
            if profile.stack.smallest {
                ""
            } else {
                "; else a smaller GPU or slice does as well"
            }
        );
        lost.finding(1.0, statement, &[&advice], Vec::new())
    })
}

fn charge(rank: &Rank<'_>, ledger: &mut Ledger<'_>) {
    let (fewest, small) = (rank.limits.of(&BLOCKS), rank.limits.of(&SMALL));
    let certain = rank.limits.of(&CERTAIN_KERNEL);
    for kernel in rank.ordered.kernels(rank.timeline) {
        let launch = launch_of(rank.timeline, kernel.work);
        let blocks = launch.and_then(|launch| launch.blocks_per_multiprocessor);
        let duration = kernel.duration() as f64;
        if let Some(blocks) = blocks.filter(|blocks| *blocks < fewest && duration >= small) {
            let lost = duration * rank.alone * (1.0 - blocks.max(0.0));
            ledger.charge_work(
                CAUSE,
                kernel.place,
                lost as i64,
                ((lost * certain) as i64, lost as i64),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{Made, check};
    use gpuwise_domain::profile::timeline::{Detail, LaunchShape};
    #[test]
    fn low_occupancy() {
        let blocks = |made: &mut Made, blocks: f64| {
            let detail = made.detail(Detail::Launch(LaunchShape {
                blocks_per_multiprocessor: Some(blocks),
                ..LaunchShape::default()
            }));
            for round in 0..10 {
                made.kernel("some_kernel", round * 100, round * 100 + 99, 500)
                    .detail = detail;
            }
        };
        check(
            "low_occupancy",
            |made| blocks(made, 0.1),
            |made| blocks(made, 2.0),
        );
    }
}
