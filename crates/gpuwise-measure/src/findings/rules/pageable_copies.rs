//! Copies from or to pageable memory, and the calls that make them.

use super::pcie::{PINNED_RATE, charge_copies, finding};
use crate::findings::{
    host::Wait,
    ledger::{Cause, Ledger},
    lost::Lost,
    rule::{CERTAIN_HOST, Profile, Rank, Row, Rule},
};
use gpuwise_domain::profile::finding::{Finding, FindingDefinition};

pub(in crate::findings) const CAUSE: Cause = Cause("pageable_copies");

const SHARE: Row = Row {
    name: "pageable_share",
    value: 0.03,
    unit: "share of the span",
    meaning: "exposed pageable copies and what waits for them, from which it is said",
    source: "Nsight Systems User Guide, expert system: async memcpy with pageable memory",
};

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "pageable_copies",
        title: "pageable copies",
        signal: "Copies from or to pageable host memory under which nothing was computed, and idle time that their blocking calls cause, are `pageable_share` or more.",
        advice: "Pinned memory (pin_memory=True), non_blocking=True, and a stream of their own.",
        gain: "high: all of it; low: what is over the time at `pinned_bytes_per_s`.",
        source: "Nsight Systems expert system, cudaMemcpyAsync with pageable memory",
    },
    thresholds: &[SHARE, PINNED_RATE, CERTAIN_HOST],
    charge,
    find,
    waits: Some(Wait::Pageable),

    ..Rule::EMPTY
};

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    Lost::said(profile, CAUSE, &SHARE, |lost| {
        let statement = format!(
            "Copies of pageable host memory took {}, with nothing computed beside them",
            lost.of_the_time()
        );
        let advice = if profile.stack.is_pytorch() {
            "Pin the host memory (`pin_memory=True` of the loader, `tensor.pin_memory()`), and copy with `non_blocking=True`."
        } else {
            "Pin the host memory, and copy it asynchronously on a stream of its own."
        };
        finding(profile, lost, statement, advice)
    })
}

fn charge(rank: &Rank<'_>, ledger: &mut Ledger<'_>) {
    charge_copies(rank, CAUSE, |pageable| pageable, ledger);
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{check, copying};
    use gpuwise_domain::profile::timeline::MemoryKind;

    #[test]
    fn pageable_copies() {
        check(
            "pageable_copies",
            |made| copying(made, MemoryKind::Pageable),
            |made| copying(made, MemoryKind::Pinned),
        );
    }
}
