//! The summary of a profile: what a database keeps and two runs compare.

use crate::{
    mirror::{Mirror, document, forms, variants, written},
    quantities::Real,
};
use gpuwise_domain::profile::{
    figure::{Figure, Scope, Summary, Value},
    figures::{MatchedCollective, RankLateness, Stragglers},
    finding::{Evidence, Finding, Gain, Place},
};

written! {
    /// What is concluded from a profile.
    #[serde(deny_unknown_fields)]
    pub(crate) SummaryDocument = |summary: &Summary| {
        /// Files it was made from.
        files: Vec<String> = summary.files.clone(),
        /// When the first work ran, in nanoseconds since 1970, where known.
        started_at_ns: Option<i64> = summary.started_at_ns,
        /// Products of the devices, each once.
        hardware: Vec<String> = summary.hardware.clone(),
        /// Software and versions.
        software: Vec<SoftwareDocument> = forms(&summary.software),
        /// Findings, the one that gains most first.
        findings: Vec<FindingDocument> = summary.findings.iter().map(Mirror::of).collect(),
        /// Figures one by one.
        figures: Vec<FigureDocument> = forms(&summary.figures),
        /// What is missing in the input, in words.
        missing: Vec<String> = summary.missing.clone(),
    }
}

written! {
    /// A piece of software.
    #[serde(deny_unknown_fields)]
    pub(crate) SoftwareDocument = |software: &(String, String)| {
        name: String = software.0.clone(),
        version: String = software.1.clone(),
    }
}

document! {
    /// What a figure or finding is of; null is all.
    ScopeDocument = Scope {
        rank(rank): Option<u32>,
        device(device): Option<i64>,
        part(part): Option<String>,
    }
}

written! {
    /// One figure: a whole number, a real one, or why there is none.
    #[serde(deny_unknown_fields)]
    pub(crate) FigureDocument = |figure: &Figure| {
        name: String = figure.name.clone(),
        of: ScopeDocument = Mirror::of(&figure.scope),
        #[serde(default, skip_serializing_if = "Option::is_none")]
        count: Option<i64> = integer(&figure.value),
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<Real> = real(&figure.value),
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unknown: Option<String> = unknown(&figure.value),
    }
}

document! {
    /// One thing found.
    FindingDocument = Finding {
        class(class): String,
        of(scope): ScopeDocument,
        statement(statement): String,
        evidence(evidence): Vec<EvidenceDocument>,
        places(places): Vec<PlaceDocument>,
        gain(gain): GainDocument,
        advice(advice): Vec<String>,
    }
}

document! {
    /// A figure that a finding rests on.
    EvidenceDocument = Evidence {
        figure(figure): String,
        value(value): Real,
        unit(unit): String,
        threshold(threshold): Option<Real>,
    }
}

document! {
    /// Where a finding can be seen.
    PlaceDocument = Place {
        rank(rank): Option<u32>,
        device(device): Option<i64>,
        start_ns(start_ns): i64,
        end_ns(end_ns): i64,
        lost_ns(lost_ns): Option<i64>,
        what(what): String,
    }
}

variants! {
    /// What a fix would gain.
    #[serde(tag = "of")]
    GainDocument = Gain {
        /// A share of the time.
        Time {
            /// At least.
            low(low): Real,
            /// At most.
            high(high): Real,
        }
        /// Bytes of device memory.
        Memory {
            /// At least.
            low(low): u64,
            /// At most.
            high(high): u64,
        }
        /// A share of the device.
        Device {
            /// At least.
            low(low): Real,
            /// At most.
            high(high): Real,
        }
        /// About correctness or safety.
        Safety {}
        /// Cannot be told.
        Unknown {}
    }
}

const fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Integer(known) => Some(*known),
        _ => None,
    }
}

const fn real(value: &Value) -> Option<Real> {
    match value {
        Value::Real(known) => Some(Real(*known)),
        _ => None,
    }
}

fn unknown(value: &Value) -> Option<String> {
    match value {
        Value::Unknown(reason) => Some(reason.clone()),
        _ => None,
    }
}

written! {
    /// Who waited for whom in collectives.
    pub(crate) StragglersDocument = |stragglers: &Stragglers| {
        /// Collectives that could be laid beside one another.
        matched: u64 = stragglers.collectives.len() as u64,
        /// Those that could not.
        unmatched: u64 = stragglers.unmatched,
        /// Each rank.
        ranks: Vec<LatenessDocument> = forms(&stragglers.ranks),
        /// Collectives, the ones that cost most first.
        collectives: Vec<MatchedDocument> = worst(stragglers),
    }
}

written! {
    /// How late a rank was.
    pub(crate) LatenessDocument = |rank: &RankLateness| {
        rank: u32 = rank.rank,
        count: u64 = rank.count,
        /// Collectives in which it came last.
        last_count: u64 = rank.last_count,
        /// What the others waited for it.
        caused_ns: i64 = rank.caused_ns,
        /// What it waited for others.
        waited_ns: i64 = rank.waited_ns,
    }
}

written! {
    /// One collective over the ranks.
    pub(crate) MatchedDocument = |collective: &MatchedCollective| {
        name: String = collective.name.clone(),
        group: Option<String> = collective.group.clone(),
        order: u64 = collective.order,
        /// Null where two or more were equally late.
        last_rank: Option<u32> = collective.last_rank,
        /// Time that the last rank's profiler took before it came, left out of the lateness.
        overhead_ns: i64 = collective.overhead_ns,
        lateness_ns: i64 = collective.lateness_ns,
        transfer_ns: i64 = collective.transfer_ns,
        ranks: u32 = collective.ranks,
        bus_bytes_per_s: Option<f64> = collective.bus_bandwidth,
    }
}

/// Collectives that are listed.
const COLLECTIVES: usize = 50;

fn worst(stragglers: &Stragglers) -> Vec<MatchedDocument> {
    let mut worst: Vec<_> = stragglers.collectives.iter().collect();
    worst.sort_by_key(|collective| std::cmp::Reverse(collective.lateness_ns));
    worst.truncate(COLLECTIVES);
    forms(worst)
}
