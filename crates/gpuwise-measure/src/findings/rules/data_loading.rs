//! The device waits for a data loader.

use crate::findings::{
    ledger::Cause,
    lost::{Lost, percent},
    replay::Whole,
    rule::{Profile, Row, Rule, evidence},
};
use gpuwise_domain::profile::{
    finding::{Evidence, Finding, FindingDefinition},
    joined::HostQuantity,
};

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

const FULL: Row = Row {
    name: "loader_cpu_full",
    value: 0.9,
    unit: "ratio",
    meaning: "use of the host's cores, recorded beside the trace, from which more workers are known to bring nothing",
    source: "-",
};

const WAITS: Row = Row {
    name: "loader_iowait",
    value: 0.1,
    unit: "ratio",
    meaning: "time of the host's cores waiting for a disk, recorded beside the trace, from which the disk is what the loader waits for",
    source: "-",
};

const BUSY_DISK: Row = Row {
    name: "loader_disk_busy",
    value: 0.9,
    unit: "ratio",
    meaning: "time in which the busiest disk has requests, the same",
    source: "-",
};

/// What the host did meanwhile, where it was recorded beside the trace.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Holds {
    Unknown,
    /// The disk: use of the busiest, and the share of time in which cores wait for one.
    Disk(Option<f64>, Option<f64>),
    /// All cores work.
    Cores(f64),
    /// There are cores to spare.
    Neither(f64),
}

impl Holds {
    fn of(profile: &Profile<'_>) -> Self {
        let (joined, limits) = (&profile.figures.joined, profile.limits);
        let used = joined.host_mean(HostQuantity::CpuUtil);
        let waits = joined.host_mean(HostQuantity::CpuIowait);
        let disk = joined.host_busiest(HostQuantity::DiskUtil);
        let over = |value: Option<f64>, row| value.is_some_and(|value| value >= limits.of(row));
        match used {
            _ if over(waits, &WAITS) || over(disk, &BUSY_DISK) => Self::Disk(disk, waits),
            Some(used) if over(Some(used), &FULL) => Self::Cores(used),
            Some(used) => Self::Neither(used),
            None => Self::Unknown,
        }
    }

    /// The sentence's end, advice before that of the loader, and whether workers may help.
    fn said(self) -> (String, Option<&'static str>, bool) {
        let share = |name: &str, value: Option<f64>| {
            value.map(|value| format!("{name} {}", percent(value)))
        };
        match self {
            Self::Unknown => (String::new(), None, true),
            Self::Disk(disk, waits) => {
                let told: Vec<String> = [
                    share("the busiest disk in use", disk),
                    share("cores waiting for a disk", waits),
                ]
                .into_iter()
                .flatten()
                .collect();
                (
                    format!("; the host's disk holds it up ({})", told.join(", ")),
                    Some(
                        "Keep the data set in memory or on local NVMe, or pack it into few large files that are read in order; more workers wait for the same disk.",
                    ),
                    false,
                )
            }
            Self::Cores(used) => (
                format!("; the host's cores are {} busy", percent(used)),
                Some(
                    "More workers gain nothing on cores that are busy: decode on the GPU, prepare the data set beforehand, or give the job more cores.",
                ),
                false,
            ),
            Self::Neither(used) => (
                format!(
                    "; the host's cores are only {} busy: workers have room",
                    percent(used)
                ),
                None,
                true,
            ),
        }
    }
}

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "data_loading",
        title: "data loading",
        signal: "Idle time of the device under a data loader's range (`enumerate(DataLoader)#…`) is `loader_share` of the span or more. What holds the loader up is told by the host's cores and disks where they were recorded beside the trace (`--with`).",
        advice: "More workers, prefetching, pinned memory, cached or cheaper decoding.",
        gain: "high: that idle time; low: `certain_loader` of it, since workers take cores from the launching thread; 0 where the host's cores are `loader_cpu_full` busy, or its disk is what holds the loader up (`loader_iowait`, `loader_disk_busy`).",
        source: "pytorch/kineto tb_plugin data.py; TensorFlow profiler guide",
    },
    thresholds: &[SHARE, CERTAIN, FULL, WAITS, BUSY_DISK],

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
        let holds = Holds::of(profile);
        let (meanwhile, instead, workers_help) = holds.said();
        let advice: Vec<&str> = match instead {
            Some(instead) => vec![instead],
            None => advice.to_vec(),
        };
        let certain = if workers_help { certain } else { 0.0 };
        let statement = format!("The GPU stood idle {share} while {first} fetched data{meanwhile}");
        lost.finding(certain, statement, &advice, recorded(profile))
    })
}

/// What the host did meanwhile, as evidence.
fn recorded(profile: &Profile<'_>) -> Vec<Evidence> {
    let joined = &profile.figures.joined;
    let limit = |row| Some(profile.limits.of(row));
    let told = [
        (
            "cpu_util",
            joined.host_mean(HostQuantity::CpuUtil),
            limit(&FULL),
        ),
        (
            "cpu_iowait",
            joined.host_mean(HostQuantity::CpuIowait),
            limit(&WAITS),
        ),
        (
            "disk_util",
            joined.host_busiest(HostQuantity::DiskUtil),
            limit(&BUSY_DISK),
        ),
    ];
    let told = told.into_iter();
    told.filter_map(|(name, value, limit)| Some(evidence(name, value?, "ratio", limit)))
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::findings::{
        Thresholds, of_profile,
        testing::{Made, charged, check, classifier, gaps, measured, recorded},
    };
    use gpuwise_domain::profile::{
        finding::Gain,
        joined::{
            HostQuantity::{self, CpuIowait, CpuUtil, DiskUtil},
            RecordedMetric::Host,
        },
    };

    #[test]
    fn the_host_says_what_holds_the_loader_up() {
        let loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
        let check = |host: &[(HostQuantity, f64)], words: &str, workers_help: bool| {
            let mut made = Made::new();
            gaps(&mut made, |made, at| made.range(loader, at, at + 92));
            let one = measured(&made.0, &classifier());
            let signals = charged(&made.0, &one);
            let mut figures = crate::figures::of_profile(vec![one]);
            let host: Vec<_> = host
                .iter()
                .map(|(of, value)| (Host(*of), vec![*value; 2]))
                .collect();
            figures.joined = recorded(&made.0, &figures.ranks, &host);
            let found = of_profile(&[signals], &figures, &Thresholds::default());
            let found = found
                .iter()
                .find(|one| one.class == "data_loading")
                .expect("said");
            assert!(found.statement.contains(words), "{}", found.statement);
            let Gain::Time { low, high } = found.gain else {
                panic!("{found:?}")
            };
            assert_eq!(low > 0.0, workers_help, "{low} {high}");
            assert!(high > 0.1, "{high}");
        };
        check(&[(CpuUtil, 0.3)], "only 30.0 % busy", true);
        check(&[(CpuUtil, 0.97)], "cores are 97.0 % busy", false);
        check(
            &[(CpuUtil, 0.3), (CpuIowait, 0.2)],
            "disk holds it up",
            false,
        );
        check(&[(DiskUtil, 0.99)], "the busiest disk in use 99.0 %", false);
    }

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
