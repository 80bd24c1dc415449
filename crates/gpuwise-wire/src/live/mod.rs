//! Documents of a fleet that is driven: what there is, what is asked for, what is done, what happened.
//!
//! Everything is by number, so that a log of them is small and means the same as long as numbers do;
//! nodes and GPUs carry lasting ids beside. The plan by names that people keep is another document.

mod event;
mod fleet;
mod job;
mod numbers;
mod plan;
mod report;

pub use event::{
    EndedWord, EventDocument, FailureDocument, FailureWord, SeenDocument, TimestampedEventDocument,
};
pub use fleet::{
    BackfillWord, DomainDocument, FleetDocument, GeometryDocument, GpuDocument, HealthDocument,
    HomeDocument, KindDocument, LevelWord, NodeDocument, OrderWord, PoolDocument, PreferenceWord,
    QueueDocument, QuotaDocument, ReservationDocument, SchedulingDocument, ShapeDocument,
    SharingDocument, WeighWord,
};
pub use job::{
    AskDocument, DurationDocument, GangDocument, IsolationDocument, JobDocument, NeedDocument,
    PreemptionDocument, SliceDocument, SpeedDocument, SpreadDocument, TopologyDocument,
    WorkerDocument,
};
pub use numbers::{
    AttemptNumber, DomainNumber, GpuNumber, IslandNumber, JobNumber, KindNumber, KindSet, NameText,
    NodeNumber, PoolNumber, QueueNumber, Time, UidText,
};
pub use plan::{
    ActionDocument, AssignmentDocument, CauseDocument, NumberedPlanDocument, PartDocument,
    ShareDocument,
};
pub use report::{
    DecisionDocument, FixDocument, OutcomeDocument, QueueUseDocument, QuotaLimitDocument,
    QuotaShortDocument, RemedyDocument, ReportDocument, ShortageDocument, WeighedDocument,
};

use crate::{WireError, line, mirror::Mirror, read};
use gpuwise_domain::placement::{Fleet, Job, Plan, Report, TimestampedEvent};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A document of its own: its schema's name, its file, how it is written and read.
macro_rules! file {
    ($(#[$doc:meta])* $file:ident, $schema:ident = $version:literal, $key:ident: $kind:ty = $noun:ty,
     $out:ident, $back:ident;) => {
        #[doc = concat!("The schema `", $version, "`.")]
        pub const $schema: &str = $version;

        $(#[$doc])*
        #[derive(Serialize, Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $file {
            #[doc = concat!("`", $version, "`.")]
            schema: String,
            $(#[$doc])*
            $key: $kind,
        }

        #[doc = concat!("Written as a document (`", $version, "`) on one line, without a line end.")]
        pub fn $out(noun: &$noun) -> String {
            line(&$file {
                schema: $schema.into(),
                $key: Mirror::of(noun),
            })
        }

        #[doc = concat!("Reads a document `", $version, "`.")]
        ///
        /// # Errors
        /// When it is no JSON, of another schema or version, or a field is missing, unknown or cannot be.
        pub fn $back(text: &str) -> Result<$noun, WireError> {
            let file: $file = read(text, $schema)?;
            Ok(file.$key.noun())
        }
    };
}

file! {
    /// A fleet with everything resolved.
    InventoryFile, INVENTORY_SCHEMA = "gpuwise.inventory/v1", fleet: FleetDocument = Fleet,
    fleet_to_json, fleet_from_json;
}
file! {
    /// A job.
    JobFile, JOB_SCHEMA = "gpuwise.job/v1", job: JobDocument = Job, job_to_json, job_from_json;
}
file! {
    /// An event and when it happened.
    EventFile, EVENT_SCHEMA = "gpuwise.event/v1", event: TimestampedEventDocument = TimestampedEvent,
    event_to_json, event_from_json;
}
file! {
    /// A plan by numbers.
    NumberedPlanFile, NUMBERED_PLAN_SCHEMA = "gpuwise.numbered-plan/v1",
    plan: NumberedPlanDocument = Plan, numbered_plan_to_json, numbered_plan_from_json;
}
file! {
    /// What the scheduler says beside a plan.
    ReportFile, REPORT_SCHEMA = "gpuwise.decisions/v1", report: ReportDocument = Report,
    report_to_json, report_from_json;
}
