//! The device idles in front of work that the host had launched already.

use crate::findings::{
    ledger::Cause,
    lost::Lost,
    rule::{Profile, Row, Rule},
};
use gpuwise_domain::profile::finding::{Finding, FindingDefinition, Gain};

pub(in crate::findings) const CAUSE: Cause = Cause("dependency");

const SHARE: Row = Row {
    name: "dependency_share",
    value: 0.1,
    unit: "share of the span",
    meaning: "idle time in front of work that had been launched, from which it is said",
    source: "-",
};

pub(in crate::findings) const LONGEST_WAY: Row = Row {
    name: "launch_way_ns",
    value: 100_000.0,
    unit: "ns",
    meaning: "work that has not begun so long after its launch waits for something else than its way to the device",
    source: "launches on idle devices take 4 to 10 µs (NVIDIA, Getting Started with CUDA Graphs, 2019) and up to 35 µs on ROCm (traces of MI300X)",
};

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "dependency",
        title: "launched, and waiting",
        signal: "Idle time of `dependency_share` or more between the return of the launching call and the start of the work, where that is `launch_way_ns` or longer.",
        advice: "Look what the stream waited for (an event of another stream, another rank, another process on the GPU), and whether the profiler recorded everything that ran: nodes of graphs, work launched before it began.",
        gain: "unknown: what it waited for is not in the trace.",
        source: "NVIDIA CUDA programming guide, streams and events; CUPTI documentation, graph tracing",
    },
    thresholds: &[SHARE, LONGEST_WAY],
    find,
    ..Rule::EMPTY
};

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    Lost::said(profile, CAUSE, &SHARE, |lost| {
        let (share, first) = (lost.of_the_time(), lost.first());
        let statement = format!(
            "The GPU stood idle {share} in front of work that had been launched already, most of it of {first}: it waited for something that the trace does not show"
        );
        let advice = "Nothing that the host does holds this work back. It waited for an event of another stream, another rank or another process on the GPU, or what ran is not recorded: nodes of a graph, work launched before the profiler began.";
        lost.with_gain(Gain::Unknown, statement, &[advice], Vec::new())
    })
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::check;

    /// The second kernel is launched at once, and begins after 5 ms; the host waits for it meanwhile.
    #[test]
    fn dependency() {
        check(
            "dependency",
            |made| {
                made.kernel("first", 10, 1000, 6);
                let call = made.call("cudaLaunchKernel", 20, 24);
                made.call("cudaDeviceSynchronize", 30, 7000);
                made.work("second", 6000, 7000, call);
            },
            |made| {
                made.kernel("first", 10, 1000, 6);
                made.call("cudaDeviceSynchronize", 30, 5990);
                let call = made.call("cudaLaunchKernel", 5992, 5996);
                made.work("second", 6000, 7000, call);
            },
        );
    }
}
