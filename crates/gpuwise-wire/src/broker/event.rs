//! What happened, as the log keeps it.

use super::{
    FiledDocument, LeaseAsk, PooledDocument, ProposalState, RightSizeDocument, ScalePolicy,
    ScaledDocument, SloDocument, UsageDocument,
};
use crate::live::{
    EventDocument, FleetDocument, JobDocument, NodeNumber, NumberedPlanDocument, QueueDocument,
    ReservationDocument, SchedulingDocument, SharingDocument,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An event of the broker and when it happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LoggedEvent {
    /// Nanoseconds since 1970, UTC.
    pub at_ns: u64,
    pub event: BrokerEvent,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[allow(
    clippy::large_enum_variant,
    reason = "the first event alone holds a fleet"
)]
pub enum BrokerEvent {
    /// The broker begins with this fleet.
    Began {
        fleet: FleetDocument,
        /// MIG instances that are there already.
        present: Vec<EventDocument>,
        policy: PolicyDocument,
    },
    /// The scheduler goes by another policy.
    PolicySet {
        policy: PolicyDocument,
    },
    /// A tenant is new, or has changed.
    TenantSet {
        tenant: TenantDocument,
        /// Leases that are held against a budget that is new, and what is held back for each.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        reserved: Vec<(u32, String)>,
    },
    /// A token may be used.
    TokenAdded {
        token: TokenDocument,
    },
    TokenRevoked {
        /// Its name.
        name: String,
        tenant: Option<String>,
    },
    /// A lease was asked for and admitted.
    LeaseRequested {
        /// Its number: `L-42` is 42.
        lease: u32,
        ask: LeaseAsk,
        /// What the kernel is asked for.
        job: JobDocument,
        /// How a model was sized.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<LeaseSize>,
        /// For how long, in nanoseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        length_ns: Option<u64>,
        /// The key under which it was asked for, and a hash of what was asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<(String, String)>,
        /// What the budget holds back for it: µ-units of its currency.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reserved: Option<String>,
        /// The deployment of a model, as `gpuwise plan --save` writes it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deployment: Option<String>,
        /// The lease in whose place it comes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        in_place_of: Option<u32>,
        /// The first lease of the service of which it is one more replica.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replica_of: Option<u32>,
    },
    /// A calendar month begins: its budgets hold what leases may cost in it.
    MonthBegan {
        /// Leases that are not over, and what is held back for each.
        reserved: Vec<(u32, String)>,
    },
    /// A price holds from a moment on, in place of the one that was for the same.
    PriceSet {
        price: PriceDocument,
        /// What budgets hold back from now on for leases that are not over.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        reserved: Vec<(u32, String)>,
    },
    /// What budgets hold back for leases that are about to begin, or have begun, at another time than they were held for.
    Held {
        reserved: Vec<(u32, String)>,
    },
    /// A month's statements stay as they are; what comes later is corrected in the first month that is open.
    MonthClosed {
        /// Such as `2026-11`.
        month: String,
    },
    /// Somebody asked for what happened just before.
    Asked(AskedDocument),
    /// The kernel's plan is the target: its actions have begun.
    Planned {
        plan: NumberedPlanDocument,
        /// What was weighed for those who were placed.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        placed: Vec<PlacedReason>,
    },
    /// Something of the fleet changed: an action is done or has failed, health, what was measured.
    Fleet {
        event: EventDocument,
    },
    /// A fleet file was taken over: what the next one is compared with.
    FleetFiled {
        file: Box<FiledDocument>,
    },
    /// Nothing new is placed on a node until it is uncordoned, whatever its executor says of it.
    Cordoned {
        node: NodeNumber,
        /// Whether leases there that may be preempted are, also those that come to be active later.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        drains: bool,
    },
    Uncordoned {
        node: NodeNumber,
    },
    /// A secret of a tenant has a value, or another one; it is kept elsewhere.
    SecretSet {
        tenant: String,
        name: String,
    },
    SecretRemoved {
        tenant: String,
        name: String,
    },
    /// A lease is told to end.
    Draining {
        lease: u32,
        reason: String,
    },
    /// A lease has ended; its GPUs are free.
    Ended {
        lease: u32,
        how: EndedHow,
        reason: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// When that was, where it is known and was before this event: nanoseconds since 1970, UTC. It is metered until
        /// then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ended_ns: Option<u64>,
    },
    /// The system that runs a lease has halted it: it keeps its GPUs, does not run, and is not metered.
    Halted {
        lease: u32,
        reason: String,
    },
    /// What was halted runs again.
    Resumed {
        lease: u32,
    },
    /// What ran of a lease has failed, and is to be started again where it was.
    Restarting {
        lease: u32,
        reason: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// Not before: nanoseconds since 1970, UTC.
        after_ns: u64,
    },
    /// It runs again.
    Restarted {
        lease: u32,
    },
    /// What leases used was told.
    Used {
        usage: Vec<UsageDocument>,
    },
    /// An SLO is new, or has changed.
    SloSet {
        slo: SloDocument,
    },
    SloRemoved {
        slo: u32,
    },
    /// An error budget burns too fast, or no longer: the lease's demand is raised, or lowered again.
    DemandSet {
        lease: u32,
        /// The priority of its job from now on.
        priority: i32,
        /// Whether its SLO is at risk.
        at_risk: bool,
        reason: String,
    },
    /// What was measured of a service corrects what is predicted: rows of the question form, as
    /// `gpuwise calibrate` keeps them. They replace those of the same lease.
    Learned {
        lease: u32,
        rows: String,
        reason: String,
    },
    /// A service follows demand by another policy from now on, or no longer.
    ScaleSet {
        /// Its first lease.
        service: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        policy: Option<ScalePolicy>,
    },
    /// A service that follows demand was looked at: how many replicas it is to have, and why.
    Scaled {
        look: Box<ScaledDocument>,
    },
    /// Weights are to lie in the memory of a node from now on, or no longer; or that is done.
    Pooled {
        pool: Box<PooledDocument>,
    },
    /// The broker keeps what warm replicas gave up for their tenant: a reservation of its own, whatever its name is.
    WarmKept {
        reservation: ReservationDocument,
    },
    /// A service should have another size.
    Proposed {
        proposal: Box<RightSizeDocument>,
    },
    /// A proposal is decided, or goes on.
    ProposalMoved {
        proposal: u32,
        state: ProposalState,
        reason: String,
        /// The lease that takes the place of the old one, from when it is asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        successor: Option<u32>,
        /// What was saved by the books.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        saved: Option<String>,
    },
}

impl BrokerEvent {
    /// Its tag in documents.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Began { .. } => "began",
            Self::PolicySet { .. } => "policy_set",
            Self::TenantSet { .. } => "tenant_set",
            Self::TokenAdded { .. } => "token_added",
            Self::TokenRevoked { .. } => "token_revoked",
            Self::LeaseRequested { .. } => "lease_requested",
            Self::MonthBegan { .. } => "month_began",
            Self::PriceSet { .. } => "price_set",
            Self::Held { .. } => "held",
            Self::MonthClosed { .. } => "month_closed",
            Self::Asked(_) => "asked",
            Self::Planned { .. } => "planned",
            Self::Fleet { .. } => "fleet",
            Self::FleetFiled { .. } => "fleet_filed",
            Self::Cordoned { .. } => "cordoned",
            Self::Uncordoned { .. } => "uncordoned",
            Self::SecretSet { .. } => "secret_set",
            Self::SecretRemoved { .. } => "secret_removed",
            Self::Draining { .. } => "draining",
            Self::Ended { .. } => "ended",
            Self::Halted { .. } => "halted",
            Self::Resumed { .. } => "resumed",
            Self::Restarting { .. } => "restarting",
            Self::Restarted { .. } => "restarted",
            Self::Used { .. } => "used",
            Self::SloSet { .. } => "slo_set",
            Self::SloRemoved { .. } => "slo_removed",
            Self::DemandSet { .. } => "demand_set",
            Self::Learned { .. } => "learned",
            Self::ScaleSet { .. } => "scale_set",
            Self::Scaled { .. } => "scaled",
            Self::Pooled { .. } => "pooled",
            Self::WarmKept { .. } => "warm_kept",
            Self::Proposed { .. } => "proposed",
            Self::ProposalMoved { .. } => "proposal_moved",
        }
    }
}

/// Why a lease was placed where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PlacedReason {
    pub lease: u32,
    /// Nodes that had room.
    pub candidates: u32,
    /// What was weighed for the choice, by name: its score, and the parts that it is made of.
    pub weighed: Vec<(String, i64)>,
}

/// How a lease ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EndedHow {
    Ended,
    Failed,
}

/// By what the scheduler goes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyDocument {
    /// How nodes are chosen: the name of a policy.
    pub selector: String,
    /// Whether jobs that allow it are preempted, moved or shrunk for those of higher priority.
    pub preempt: bool,
    /// Who goes first, who may go ahead, who has waited too long.
    pub scheduling: SchedulingDocument,
    /// How what queues take is made comparable, where the policy says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharing: Option<SharingDocument>,
    /// The policy file, where one was given; what is said above wins over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<Box<crate::PolicyFile>>,
}

/// A tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantDocument {
    /// Its queue: name, quota, weight.
    pub queue: QueueDocument,
    /// Money for a calendar month, with its currency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<String>,
    /// Whether it may ask for nothing new.
    #[serde(default, skip_serializing_if = "is_false")]
    pub suspended: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
const fn is_false(said: &bool) -> bool {
    !*said
}

/// A price of a GPU-hour from a moment on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PriceDocument {
    /// Its name in the book.
    pub id: String,
    /// Catalogue name of the GPU.
    pub gpu: String,
    /// For a GPU-hour, with its currency.
    pub amount: String,
    /// Nanoseconds since 1970, UTC.
    pub from_ns: u64,
    /// For one tenant alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// `on-demand` or `spot`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// A MIG profile, or `whole`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// Thousandths of what is charged by it that whoever lent the capacity earns; left out: 500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lent_milli: Option<u32>,
}

/// Who asked for what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AskedDocument {
    /// The name of the token.
    pub by: String,
    /// The tenant that it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// What was asked: its name in OpenAPI.
    pub what: String,
    /// Whom or what it is about: `L-42`, a tenant, a token, a price.
    pub subject: String,
    /// The tenant whose that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// The key under which it was asked for, and a hash of what was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<(String, String)>,
}

/// A token, without what it is: its hash alone is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenDocument {
    pub name: String,
    /// SHA-256 of the token, in hexadecimal.
    pub hash: String,
    pub role: Role,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// When it ends: nanoseconds since 1970, UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_ns: Option<u64>,
}

gpuwise_units::named! {
    /// What a token may do.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Role:
        name
    {
        /// Everything.
        Administrator = "administrator",
        /// The fleet and its leases, not tenants, tokens or prices.
        Operator = "operator",
        /// All of one tenant.
        TenantAdmin = "tenant-admin",
        /// Leases of one tenant.
        Member = "member",
        /// Reads everything, changes nothing; of one tenant where it is for one.
        Auditor = "auditor",
    }
}

/// How a model was sized.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseSize {
    /// The deployment in words: GPUs, layout, precision.
    pub deployment: String,
    /// What gives the same answer on the command line.
    pub command: String,
    /// Replicas.
    pub replicas: u32,
    /// Most requests a second that are sustained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sustained: Option<f64>,
    /// Tokens of a request of those, in the mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<crate::scale::RequestTokensPart>,
}
