//! The summary of a profile: what a database keeps and two runs compare.

use crate::{
    mirror::{Mirror, document, variants},
    quantities::Real,
};
use gpuwise_domain::profile::{
    figure::{Figure, Scope, Summary, Value},
    figures::Stragglers,
    finding::{Evidence, Finding, Gain, Place},
};
use serde::Serialize;
use utoipa::ToSchema;

/// What is concluded from a profile.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SummaryDocument {
    /// Files it was made from.
    files: Vec<String>,
    /// When the first work ran, in nanoseconds since 1970, where known.
    started_at_ns: Option<i64>,
    /// Products of the devices, each once.
    hardware: Vec<String>,
    /// Software and versions.
    software: Vec<SoftwareDocument>,
    /// Findings, the one that gains most first.
    findings: Vec<FindingDocument>,
    /// Figures one by one.
    figures: Vec<FigureDocument>,
    /// What is missing in the input, in words.
    missing: Vec<String>,
}

/// A piece of software.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SoftwareDocument {
    name: String,
    version: String,
}

document! {
    /// What a figure or finding is of; null is all.
    ScopeDocument = Scope {
        rank(rank): Option<u32>,
        device(device): Option<i64>,
        part(part): Option<String>,
    }
}

/// One figure: a whole number, a real one, or why there is none.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FigureDocument {
    name: String,
    of: ScopeDocument,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    count: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<Real>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unknown: Option<String>,
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

impl SummaryDocument {
    pub(super) fn of(summary: &Summary) -> Self {
        Self {
            files: summary.files.clone(),
            started_at_ns: summary.started_at_ns,
            hardware: summary.hardware.clone(),
            software: summary
                .software
                .iter()
                .map(|(name, version)| SoftwareDocument {
                    name: name.clone(),
                    version: version.clone(),
                })
                .collect(),
            findings: summary.findings.iter().map(Mirror::of).collect(),
            figures: summary.figures.iter().map(FigureDocument::of).collect(),
            missing: summary.missing.clone(),
        }
    }
}

impl FigureDocument {
    fn of(figure: &Figure) -> Self {
        let (mut count, mut value, mut unknown) = (None, None, None);
        match &figure.value {
            Value::Integer(known) => count = Some(*known),
            Value::Real(known) => value = Some(Real(*known)),
            Value::Unknown(reason) => unknown = Some(reason.clone()),
        }
        Self {
            name: figure.name.clone(),
            of: ScopeDocument::of(&figure.scope),
            count,
            value,
            unknown,
        }
    }
}

/// Who waited for whom in collectives.
#[derive(Serialize, ToSchema)]
pub(crate) struct StragglersDocument {
    /// Collectives that could be laid beside one another.
    matched: u64,
    /// Those that could not.
    unmatched: u64,
    /// Each rank.
    ranks: Vec<LatenessDocument>,
    /// Collectives, the ones that cost most first.
    collectives: Vec<MatchedDocument>,
}

/// How late a rank was.
#[derive(Serialize, ToSchema)]
pub(crate) struct LatenessDocument {
    rank: u32,
    count: u64,
    /// Collectives in which it came last.
    last_count: u64,
    /// What the others waited for it.
    caused_ns: i64,
    /// What it waited for others.
    waited_ns: i64,
}

/// One collective over the ranks.
#[derive(Serialize, ToSchema)]
pub(crate) struct MatchedDocument {
    name: String,
    group: Option<String>,
    order: u64,
    /// Null where two or more were equally late.
    last_rank: Option<u32>,
    lateness_ns: i64,
    /// Time that the last rank's profiler took before it came, left out of the lateness.
    overhead_ns: i64,
    transfer_ns: i64,
    ranks: u32,
    bus_bytes_per_s: Option<f64>,
}

/// Collectives that are listed.
const COLLECTIVES: usize = 50;

impl StragglersDocument {
    pub(super) fn of(stragglers: &Stragglers) -> Self {
        let mut worst: Vec<_> = stragglers.collectives.iter().collect();
        worst.sort_by_key(|collective| std::cmp::Reverse(collective.lateness_ns));
        Self {
            matched: stragglers.collectives.len() as u64,
            unmatched: stragglers.unmatched,
            ranks: stragglers
                .ranks
                .iter()
                .map(|rank| LatenessDocument {
                    rank: rank.rank,
                    count: rank.count,
                    last_count: rank.last_count,
                    caused_ns: rank.caused_ns,
                    waited_ns: rank.waited_ns,
                })
                .collect(),
            collectives: worst
                .into_iter()
                .take(COLLECTIVES)
                .map(|collective| MatchedDocument {
                    name: collective.name.clone(),
                    group: collective.group.clone(),
                    order: collective.order,
                    last_rank: collective.last_rank,
                    lateness_ns: collective.lateness_ns,
                    overhead_ns: collective.overhead_ns,
                    transfer_ns: collective.transfer_ns,
                    ranks: collective.ranks,
                    bus_bytes_per_s: collective.bus_bandwidth,
                })
                .collect(),
        }
    }
}
