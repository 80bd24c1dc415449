//! The device waits for a data loader.

use crate::findings::{
    ledger::Cause,
    lost::Lost,
    replay::Whole,
    rule::{Profile, Row, Rule},
};
use gpuwise_domain::profile::finding::{Finding, FindingDefinition};

pub(in crate::findings) const CAUSE: Cause = Cause("data_loading");

const SHARE: Row = Row {
    name: "loader_share",
    value: 0.05,
    unit: "share of the span",
    meaning: "idle time of the device under a data loader's range from which data loading is said",
    source: "pytorch/kineto tb_plugin torch_tb_profiler/profiler/data.py warns from 5 % of the step",
};

const CERTAIN: Row = Row {
    name: "certain_loader",
    value: 0.9,
    unit: "share of the gain",
    meaning: "what workers are known to bring at least of a loader's wait",
    source: "tb_resnet50_nw0 to nw4 of the PyTorch profiler's samples: 47 ms a step predicted, 50 gained",
};

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "data_loading",
        title: "data loading",
        signal: "Idle time of the device under a data loader's range (`enumerate(DataLoader)#…`) is `loader_share` of the span or more.",
        advice: "More workers, prefetching, pinned memory, cached or cheaper decoding.",
        gain: "high: that idle time; low: `certain_loader` of it, since workers take cores from the launching thread.",
        source: "pytorch/kineto tb_plugin data.py; TensorFlow profiler guide",
    },
    thresholds: &[SHARE, CERTAIN],

    find,
    whole: |host| Whole::Always(&host.loader),

    ..Rule::EMPTY
};

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    Lost::said(profile, CAUSE, &SHARE, |lost| {
        let certain = profile.limits.of(&CERTAIN);

        let advice: &[&str] = if !profile.stack.is_pytorch() {
            &["More workers that decode, prefetching, or cheaper decoding."]
        } else if lost.first_contains("SingleProcess") {
            &[
                "The loader works in the training process itself: give it workers (`DataLoader(num_workers=4, pin_memory=True)`).",
                "Then raise `prefetch_factor`, or make decoding cheaper, until its range is near zero.",
            ]
        } else {
            &[
                "The loader has workers, and they do not keep up: more of them, a larger `prefetch_factor`, `persistent_workers=True`, or cheaper decoding.",
            ]
        };
        let (share, first) = (lost.of_the_time(), lost.first());
        let statement = format!("The GPU stood idle {share} while {first} fetched data");
        lost.finding(certain, statement, advice, Vec::new())
    })
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{check, gaps};
    #[test]
    fn data_loading() {
        let loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
        check(
            "data_loading",
            |made| gaps(made, |made, at| made.range(loader, at, at + 92)),
            |made| {
                made.range(loader, 50, 60);
                gaps(made, |made, at| {
                    made.operator("aten::mm", at, at + 92);
                });
            },
        );
    }
}
