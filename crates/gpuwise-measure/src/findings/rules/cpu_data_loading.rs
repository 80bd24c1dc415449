//! Without a GPU: the training process fetches its data itself.

use crate::findings::{
    cpu::Part,
    ledger::{Cause, Ledger},
    lost::Lost,
    rule::{CERTAIN_HOST, Profile, Rank, Row, Rule, evidence},
};
use gpuwise_domain::profile::finding::{Finding, FindingDefinition};

const CAUSE: Cause = Cause("cpu_data_loading");

const SHARE: Row = Row {
    name: "cpu_loader_share",
    value: 0.05,
    unit: "share of the span",
    meaning: "time under a data loader's range of a process without a GPU, from which it is said",
    source: "pytorch/kineto tb_plugin torch_tb_profiler/profiler/data.py warns from 5 % of the step",
};

/// Workers beyond which others of the machine are rather short of cores.
const MOST_WORKERS: f64 = 4.0;

/// Two fetch at once on any machine with two cores, as the training process waits meanwhile.
const CERTAIN_WORKERS: f64 = 2.0;

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "cpu_data_loading",
        title: "data loading, CPU only",
        signal: "In a trace of the PyTorch profiler without any GPU work, time under a data loader's range (`enumerate(DataLoader)#…`) is `cpu_loader_share` of the span or more.",
        advice: "Workers that fetch beside the computation.",
        gain: "high: that time in the steps in which it takes the most; low, in those in which it takes the least: `certain_host` of what two workers leave of it, which fetch beside the computation.",
        source: "pytorch/kineto tb_plugin data.py; PyTorch documentation, torch.utils.data",
    },
    thresholds: &[SHARE, CERTAIN_HOST],
    charge,
    find,
    ..Rule::EMPTY
};

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    Lost::said(profile, CAUSE, &SHARE, |lost| {
        let workers = lost.noted("workers").iter().copied().fold(1.0, f64::max);
        let statement = format!(
            "CPU only: `{}` fetched data for {} while nothing was computed",
            "enumerate(DataLoader)",
            lost.of_the_time()
        );
        let advice = if lost.first_contains("SingleProcess") {
            format!(
                "The loader works in the training process itself. Add `num_workers={workers:.0}, persistent_workers=True` to `DataLoader(…)`."
            )
        } else {
            "The loader's workers do not keep up: raise `num_workers` while there are cores, or make decoding cheaper.".to_owned()
        };
        let certain = profile.limits.of(&CERTAIN_HOST);
        let more = vec![evidence("workers", workers, "processes", None)];
        lost.finding(certain, statement, &[&advice], more)
    })
}

fn charge(rank: &Rank<'_>, ledger: &mut Ledger<'_>) {
    let Some(cpu) = rank.cpu else { return };
    let loading = cpu.in_steps(&cpu.loader);
    let Some(name) = rank.host.loader_name else {
        return;
    };
    let all: f64 = loading.length() as f64;
    let computing = (cpu.span() as f64 - all).max(1.0);
    let workers = (all / computing).ceil().clamp(2.0, MOST_WORKERS);
    for &(start, end) in loading.ranges() {
        ledger.charge_host(CAUSE, (start, end), name);
    }
    ledger.note(CAUSE, "workers", workers);
    let remains = |part: Part| {
        let computing = part.step - part.removed;
        (0.0, (part.removed / CERTAIN_WORKERS - computing).max(0.0))
    };
    ledger.gained(CAUSE, cpu.gained(&loading, 1.0, remains));
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{Made, check};

    fn steps(made: &mut Made, fetching: i64) {
        for round in 0..10 {
            let at = round * 1000;
            made.range("ProfilerStep#1", at, at + 1000);
            made.range(
                "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                at,
                at + fetching,
            );
            made.operator("aten::mm", at + fetching, at + 1000);
        }
    }

    #[test]
    fn cpu_data_loading() {
        check(
            "cpu_data_loading",
            |made| steps(made, 500),
            |made| steps(made, 20),
        );
        check(
            "cpu_data_loading",
            |made| steps(made, 500),
            |made| {
                steps(made, 500);
                made.kernel("some_kernel", 10, 9990, 6);
            },
        );
    }
}
