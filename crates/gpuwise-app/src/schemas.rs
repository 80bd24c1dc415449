//! JSON Schemas of what is answered and saved.

use crate::error::Problem;

macro_rules! answers {
    ($($answer:ident: $name:literal,)*) => {
        /// Every kind of answer, and every kind of document that is saved. One without a committed
        /// schema does not compile.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum AnswerName {
            $($answer,)*
        }

        impl AnswerName {
            /// What stands for `NAME` in `gpuwise.NAME/v1`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$answer => $name,)*
                }
            }
        }

        /// Every schema, by its name.
        const ALL: &[(&str, &str)] = &[$((
            $name,
            include_str!(concat!("../../../docs/reference/schema/", $name, ".v1.json")),
        ),)*];
    };
}

answers! {
    Accuracy: "accuracy",
    Audit: "audit",
    AuditProof: "audit-proof",
    BrokerPolicy: "broker-policy",
    Calibrate: "calibrate",
    CalibrateCrossValidation: "calibrate-cross-validation",
    Capacity: "capacity",
    Check: "check",
    CheckHost: "check-host",
    ClusterTop: "cluster-top",
    Compare: "compare",
    Composed: "composed",
    ComposedReplay: "composed-replay",
    Decisions: "decisions",
    Deployment: "deployment",
    Doctor: "doctor",
    Event: "event",
    Evidence: "evidence",
    Fleet: "fleet",
    FleetChanges: "fleet-changes",
    FleetMig: "fleet-mig",
    FleetMigCounts: "fleet-mig-counts",
    FleetMigPacking: "fleet-mig-packing",
    Forecast: "forecast",
    Gpus: "gpus",
    GpusCheck: "gpus-check",
    Inventory: "inventory",
    Job: "job",
    Lease: "lease",
    LeaseDryRun: "lease-dry-run",
    LeaseExplanation: "lease-explanation",
    LeaseLog: "lease-log",
    LeaseOffers: "lease-offers",
    LeaseUsage: "lease-usage",
    Leases: "leases",
    Lint: "lint",
    MediaMemory: "media-memory",
    MediaPlan: "media-plan",
    Memory: "memory",
    Models: "models",
    ModelsParts: "models-parts",
    Nodes: "nodes",
    NumberedPlan: "numbered-plan",
    Offers: "offers",
    OperatorsCheck: "operators-check",
    OperatorsShow: "operators-show",
    Optimize: "optimize",
    Place: "place",
    PlaceWhy: "place-why",
    Plan: "plan",
    PodWhy: "pod-why",
    Policy: "policy",
    Predict: "predict",
    Prices: "prices",
    Profile: "profile",
    ProfileEach: "profile-each",
    ProfileGpu: "profile-gpu",
    ProfileHta: "profile-hta",
    ProfileOperators: "profile-operators",
    ProfileRanges: "profile-ranges",
    ProfileSeries: "profile-series",
    ProfileStreams: "profile-streams",
    ProfileVariants: "profile-variants",
    Proposals: "proposals",
    Replay: "replay",
    Reservations: "reservations",
    Run: "run",
    RunsDiff: "runs-diff",
    RunsDiffOperators: "runs-diff-operators",
    RunsExport: "runs-export",
    RunsList: "runs-list",
    RunsPrune: "runs-prune",
    RunsRegress: "runs-regress",
    RunsShow: "runs-show",
    RunsTrend: "runs-trend",
    ScaleDecision: "scale-decision",
    ScaleMixDecision: "scale-mix-decision",
    ScalePlan: "scale-plan",
    ScaleReplay: "scale-replay",
    Secrets: "secrets",
    ServingPlan: "serving-plan",
    SloCosts: "slo-costs",
    Slos: "slos",
    Statement: "statement",
    StoreBackup: "store-backup",
    StoreCheck: "store-check",
    StoreSnapshot: "store-snapshot",
    Table: "table",
    Tco: "tco",
    TcoExplain: "tco-explain",
    Tenant: "tenant",
    Tenants: "tenants",
    Tier: "tier",
    Token: "token",
    TokenAudit: "token-audit",
    Tokens: "tokens",
    Top: "top",
    Train: "train",
    Watch: "watch",
    Workload: "workload",
}

pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(name, _)| *name)
}

/// The schema of a name, as a text.
///
/// # Errors
/// When there is none.
pub fn schema(name: &str) -> anyhow::Result<&'static str> {
    let found = ALL.iter().find(|(known, _)| *known == name);
    let found = found.ok_or_else(|| {
        let like = names().filter(|known| known.starts_with(name));
        let like: Vec<String> = like.map(Into::into).collect();
        Problem::new(format!("there is no schema {name:?}"))
            .did_you_mean(&like)
            .hint("`gpuwise schema` lists all")
    })?;
    Ok(found.1)
}
