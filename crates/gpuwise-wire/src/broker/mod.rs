//! Documents of the broker: what is asked of it, what happened, what it answers.
//!
//! Money is written as a decimal text with its currency (`"12.50 USD"`), time as RFC 3339 in UTC in
//! answers and as nanoseconds since 1970 in the log.

mod answer;
mod api;
mod ask;
mod cluster;
mod doctor;
mod event;
mod fleet_change;
mod gateway;
mod log;
mod rightsize;
mod scale;
mod secret;
mod slo;
mod usage;

pub use answer::{
    AccountAnswer, ExplanationAnswer, FleetAnswer, GpuAnswer, HealthAnswer, HeldGpu, HolderAnswer,
    LeaseAnswer, LeaseList, NodeAnswer, PoolAnswer, ProblemAnswer, QueuedAnswer, StatementAnswer,
    StatementLine, StatementTotal, StoreBackupAnswer, StoreCheckAnswer, StoreMoney,
    StoreSnapshotAnswer, SuspensionAnswer, TenantAnswer, TenantList, TokenAnswer, TokenList,
    TopAnswer, WeighedAnswer,
};
pub use api::{
    AuditEntry, AuditList, BudgetAnswer, BudgetList, ColdStart, DryRunAnswer, FleetReport,
    JobAnswer, JobList, OfferAnswer, OfferList, PlacedAnswer, PlanAnswer, PlanList, PolicyAnswer,
    PriceAnswer, PriceAsk, PriceList, ProjectAnswer, ProjectList, QuotaAnswer, QuotaList,
    ReservationAnswer, ReservationAsk, ReservationList, SloCostAnswer, SloCostList, StrandedAnswer,
    TenantChange, UserAnswer, UserList,
};
pub use ask::{LeaseAsk, QuotaAsk, ServiceAsk, TenantAsk, TokenAsk};
pub use cluster::{ClusterNodeUsage, ClusterTopAnswer, ClusterWorkloadUsage};
pub use doctor::{DoctorAnswer, DoctorCheck, DoctorState, PodWhyAnswer};
pub use event::{
    AskedDocument, BrokerEvent, EndedHow, LeaseSize, LoggedEvent, PlacedReason, PolicyDocument,
    PriceDocument, Role, TenantDocument, TokenDocument,
};
pub use fleet_change::{
    ChangeKind, FiledDocument, FiledNodeDocument, FleetChange, FleetChangeList, FleetPart, NodeAsk,
    NodeVerb,
};
pub use gateway::{CompletionAsk, ServedModel, ServedModels};
pub use log::LeaseLogAnswer;
pub use rightsize::{
    ProposalAnswer, ProposalDecision, ProposalList, ProposalState, ProposalStepAnswer,
    RightSizeDocument, SavingDocument,
};
pub use scale::{
    GrantDocument, PooledDocument, ReplicaAnswer, ResidentAnswer, SCALE_POLICY_SCHEMA,
    ScaleDecisionAnswer, ScalePolicy, ScaleStep, ScaleVerb, ScaledDocument, ScalingAnswer,
    SeenDocument, StartAnswer,
};
pub use secret::{SecretAnswer, SecretAsk, SecretList};
pub use slo::{
    BurnAnswer, IndicatorDocument, ObjectiveAnswer, ObjectiveDocument, SloAnswer, SloAsk,
    SloDocument, SloList,
};
pub use usage::{
    GpuUse, LatencyHistogram, LeaseUsageAnswer, ServiceUse, USAGE_TYPE, UsageAnswer, UsageAside,
    UsageData, UsageDocument, UsageEvent,
};

use crate::live::FleetDocument;
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// JSON Schemas of what is asked and answered, by name: one of OpenAPI's components each.
pub fn schemas() -> Map<String, Value> {
    let mut all = Map::new();
    with::<LeaseAsk>(&mut all);
    with::<ScalePolicy>(&mut all);
    with::<TenantAsk>(&mut all);
    with::<TokenAsk>(&mut all);
    with::<ProblemAnswer>(&mut all);
    with::<LeaseAnswer>(&mut all);
    with::<LeaseList>(&mut all);
    with::<ExplanationAnswer>(&mut all);
    with::<TenantAnswer>(&mut all);
    with::<TenantList>(&mut all);
    with::<TokenAnswer>(&mut all);
    with::<TokenList>(&mut all);
    with::<FleetAnswer>(&mut all);
    with::<FleetDocument>(&mut all);
    with::<FleetChangeList>(&mut all);
    with::<NodeAsk>(&mut all);
    with::<StatementAnswer>(&mut all);
    with::<UsageEvent>(&mut all);
    with::<UsageAnswer>(&mut all);
    with::<LeaseUsageAnswer>(&mut all);
    with::<LeaseLogAnswer>(&mut all);
    with::<SecretAsk>(&mut all);
    with::<SecretList>(&mut all);
    with::<SloAsk>(&mut all);
    with::<SloAnswer>(&mut all);
    with::<SloList>(&mut all);
    with::<ProposalAnswer>(&mut all);
    with::<ProposalList>(&mut all);
    with::<ProposalDecision>(&mut all);
    with::<TenantChange>(&mut all);
    with::<PriceAsk>(&mut all);
    with::<PriceList>(&mut all);
    with::<OfferList>(&mut all);
    with::<DryRunAnswer>(&mut all);
    with::<QuotaList>(&mut all);
    with::<BudgetList>(&mut all);
    with::<ProjectList>(&mut all);
    with::<UserList>(&mut all);
    with::<JobList>(&mut all);
    with::<ReservationAsk>(&mut all);
    with::<ReservationAnswer>(&mut all);
    with::<ReservationList>(&mut all);
    with::<crate::PolicyFile>(&mut all);
    with::<SloCostList>(&mut all);
    with::<PlanList>(&mut all);
    with::<PolicyAnswer>(&mut all);
    with::<FleetReport>(&mut all);
    with::<AuditList>(&mut all);
    with::<CompletionAsk>(&mut all);
    with::<ServedModels>(&mut all);
    all.sort_keys();
    all
}

/// JSON Schemas of what the command line prints, by the names of answers.
pub fn answer_schemas() -> Vec<(&'static str, String)> {
    vec![
        named::<LeaseAnswer>("lease", "A lease"),
        named::<DryRunAnswer>("lease-dry-run", "What would become of a lease"),
        named::<OfferList>("lease-offers", "What could be had, when, at what price"),
        named::<PriceList>("prices", "The price book"),
        named::<AuditList>("token-audit", "Who did what"),
        named::<LeaseList>("leases", "Leases"),
        named::<ExplanationAnswer>("lease-explanation", "Why a lease waits or is where it is"),
        named::<DoctorAnswer>("doctor", "What a machine and its broker are ready for"),
        named::<PodWhyAnswer>("pod-why", "Why a pod of Kubernetes waits or is where it is"),
        named::<ClusterTopAnswer>("cluster-top", "Who holds GPUs of a cluster of Kubernetes"),
        named::<StatementAnswer>("statement", "What a tenant is charged"),
        named::<StoreBackupAnswer>("store-backup", "A backup of a log"),
        named::<StoreCheckAnswer>("store-check", "Whether a log is whole"),
        named::<LeaseUsageAnswer>(
            "lease-usage",
            "What a lease used, as far as it was measured",
        ),
        named::<LeaseLogAnswer>("lease-log", "What a worker of a lease wrote"),
        named::<SloList>("slos", "Service level objectives and how they stand"),
        named::<ProposalList>("proposals", "Right-sizing proposals"),
        named::<PolicyAnswer>("broker-policy", "By what a broker's scheduler goes"),
        named::<ReservationList>("reservations", "GPUs that are kept for tenants"),
        named::<FleetAnswer>("nodes", "Nodes, and who holds what of them"),
        named::<FleetChangeList>("fleet-changes", "How a fleet changes"),
        named::<SecretList>("secrets", "Secrets, but for their values"),
        named::<SloCostList>("slo-costs", "What SLOs at risk cost whom"),
        named::<StoreSnapshotAnswer>("store-snapshot", "A snapshot of a broker's state"),
        named::<TenantAnswer>("tenant", "A tenant"),
        named::<TenantList>("tenants", "Tenants"),
        named::<TokenAnswer>("token", "A token"),
        named::<TokenList>("tokens", "Tokens"),
        named::<TopAnswer>("top", "Who holds, who waits, what it costs"),
    ]
}

fn named<T: ToSchema>(name: &'static str, about: &str) -> (&'static str, String) {
    (name, crate::schema::answer::<T>(name, about))
}

/// A type and all that it refers to.
fn with<T: ToSchema>(all: &mut Map<String, Value>) {
    let mut parts = Vec::new();
    T::schemas(&mut parts);
    parts.push((T::name().into_owned(), T::schema()));
    for (name, part) in parts {
        all.insert(name, serde_json::to_value(part).unwrap_or_default());
    }
}
