//! The summary of a profile: what a database keeps and two runs compare.

use crate::quantities::Real;
use gpuwise_domain::profile::{
    figure::{Figure, Scope, Summary, Value},
    figures::Stragglers,
    finding::{Evidence, Finding, Gain, Place},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What is concluded from a profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SoftwareDocument {
    name: String,
    version: String,
}

/// What a figure or finding is of; null is all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScopeDocument {
    rank: Option<u32>,
    device: Option<i64>,
    part: Option<String>,
}

/// One figure: a whole number, a real one, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
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

/// One thing found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FindingDocument {
    class: String,
    of: ScopeDocument,
    statement: String,
    evidence: Vec<EvidenceDocument>,
    places: Vec<PlaceDocument>,
    gain: GainDocument,
    advice: Vec<String>,
}

/// A figure that a finding rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EvidenceDocument {
    figure: String,
    value: Real,
    unit: String,
    threshold: Option<Real>,
}

/// Where a finding can be seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlaceDocument {
    rank: Option<u32>,
    device: Option<i64>,
    start_ns: i64,
    end_ns: i64,
    what: String,
}

/// What a fix would gain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "of", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum GainDocument {
    /// A share of the time.
    Time {
        /// At least.
        low: Real,
        /// At most.
        high: Real,
    },
    /// Bytes of device memory.
    Memory {
        /// At least.
        low: u64,
        /// At most.
        high: u64,
    },
    /// A share of the device.
    Device {
        /// At least.
        low: Real,
        /// At most.
        high: Real,
    },
    /// About correctness or safety.
    Safety {},
    /// Cannot be told.
    Unknown {},
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
            findings: summary.findings.iter().map(FindingDocument::of).collect(),
            figures: summary.figures.iter().map(FigureDocument::of).collect(),
            missing: summary.missing.clone(),
        }
    }

    pub(super) fn noun(self) -> Summary {
        Summary {
            files: self.files,
            started_at_ns: self.started_at_ns,
            hardware: self.hardware,
            software: self
                .software
                .into_iter()
                .map(|software| (software.name, software.version))
                .collect(),
            figures: self.figures.into_iter().map(FigureDocument::noun).collect(),
            findings: self
                .findings
                .into_iter()
                .map(FindingDocument::noun)
                .collect(),
            missing: self.missing,
        }
    }
}

impl ScopeDocument {
    fn of(scope: &Scope) -> Self {
        Self {
            rank: scope.rank,
            device: scope.device,
            part: scope.part.clone(),
        }
    }

    fn noun(self) -> Scope {
        Scope {
            rank: self.rank,
            device: self.device,
            part: self.part,
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

    fn noun(self) -> Figure {
        let value = match (self.count, self.value) {
            (Some(count), _) => Value::Integer(count),
            (None, Some(value)) => Value::Real(value.0),
            (None, None) => Value::Unknown(self.unknown.unwrap_or_default()),
        };
        Figure {
            name: self.name,
            scope: self.of.noun(),
            value,
        }
    }
}

impl FindingDocument {
    pub(super) fn of(finding: &Finding) -> Self {
        Self {
            class: finding.class.clone(),
            of: ScopeDocument::of(&finding.scope),
            statement: finding.statement.clone(),
            evidence: finding.evidence.iter().map(EvidenceDocument::of).collect(),
            places: finding.places.iter().map(PlaceDocument::of).collect(),
            gain: GainDocument::of(finding.gain),
            advice: finding.advice.clone(),
        }
    }

    pub(super) fn noun(self) -> Finding {
        Finding {
            class: self.class,
            scope: self.of.noun(),
            statement: self.statement,
            evidence: self
                .evidence
                .into_iter()
                .map(EvidenceDocument::noun)
                .collect(),
            places: self.places.into_iter().map(PlaceDocument::noun).collect(),
            gain: self.gain.noun(),
            advice: self.advice,
        }
    }
}

impl EvidenceDocument {
    fn of(evidence: &Evidence) -> Self {
        Self {
            figure: evidence.figure.clone(),
            value: Real(evidence.value),
            unit: evidence.unit.clone(),
            threshold: evidence.threshold.map(Real),
        }
    }

    fn noun(self) -> Evidence {
        Evidence {
            figure: self.figure,
            value: self.value.0,
            unit: self.unit,
            threshold: self.threshold.map(|threshold| threshold.0),
        }
    }
}

impl PlaceDocument {
    fn of(place: &Place) -> Self {
        Self {
            rank: place.rank,
            device: place.device,
            start_ns: place.start_ns,
            end_ns: place.end_ns,
            what: place.what.clone(),
        }
    }

    fn noun(self) -> Place {
        Place {
            rank: self.rank,
            device: self.device,
            start_ns: self.start_ns,
            end_ns: self.end_ns,
            what: self.what,
        }
    }
}

impl GainDocument {
    fn of(gain: Gain) -> Self {
        match gain {
            Gain::Time { low, high } => Self::Time {
                low: Real(low),
                high: Real(high),
            },
            Gain::Memory { low, high } => Self::Memory { low, high },
            Gain::Device { low, high } => Self::Device {
                low: Real(low),
                high: Real(high),
            },
            Gain::Safety => Self::Safety {},
            Gain::Unknown => Self::Unknown {},
        }
    }

    fn noun(self) -> Gain {
        match self {
            Self::Time { low, high } => Gain::Time {
                low: low.0,
                high: high.0,
            },
            Self::Memory { low, high } => Gain::Memory { low, high },
            Self::Device { low, high } => Gain::Device {
                low: low.0,
                high: high.0,
            },
            Self::Safety {} => Gain::Safety,
            Self::Unknown {} => Gain::Unknown,
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
    last_rank: u32,
    lateness_ns: i64,
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
                    transfer_ns: collective.transfer_ns,
                    ranks: collective.ranks,
                    bus_bytes_per_s: collective.bus_bandwidth,
                })
                .collect(),
        }
    }
}
