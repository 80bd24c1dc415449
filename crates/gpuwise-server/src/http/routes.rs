//! The table of routes.

use super::{
    LARGEST, Problem, audit, call::Call, dry, events, fleet, leases, logs, metrics, offers, open,
    page, people, plans, policies, prices, proposals, reservations, scaling, secrets, slos,
    statements, tenants, tokens, usage,
};
use crate::gateway;
use axum::{
    http::Method,
    response::{IntoResponse as _, Response},
};
use gpuwise_wire::broker::Role;
use std::{future::Future, pin::Pin};

pub(crate) type Answered = Pin<Box<dyn Future<Output = Result<Response, Problem>> + Send>>;

/// Bytes of a fleet at most.
const LARGEST_FLEET: usize = 64 << 20;

/// Something that can be asked over HTTP.
pub(crate) struct Route {
    verb: Verb,
    pub(crate) path: &'static str,
    /// Its name: in OpenAPI and in metrics.
    pub(crate) id: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) access: Access,
    /// Names of documents: what is sent, and what comes back.
    pub(crate) takes: Option<&'static str>,
    pub(crate) gives: &'static str,
    /// The status of what comes back.
    pub(crate) status: u16,
    /// What may stand in the query, and what it says.
    pub(crate) query: &'static [(&'static str, &'static str)],
    pub(crate) run: fn(Call) -> Answered,
}

#[derive(Clone, Copy)]
enum Verb {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

impl Route {
    /// The largest body that is taken, in bytes.
    pub(crate) fn largest(&self) -> usize {
        match self.takes {
            Some("CompletionAsk") => gateway::LARGEST,
            Some("FleetDocument") => LARGEST_FLEET,
            _ => LARGEST,
        }
    }

    /// Whether it is of OpenAI's form, and what it is asked is not ours alone.
    pub(crate) fn is_gateway(&self) -> bool {
        self.takes == Some("CompletionAsk") || self.gives == "ServedModels"
    }

    /// A problem as whoever asks here looks for it.
    pub(crate) fn answer(&self, problem: Problem) -> Response {
        if self.is_gateway() {
            problem.into_openai()
        } else {
            problem.into_response()
        }
    }

    pub(crate) const fn method(&self) -> Method {
        match self.verb {
            Verb::Get => Method::GET,
            Verb::Post => Method::POST,
            Verb::Put => Method::PUT,
            Verb::Patch => Method::PATCH,
            Verb::Delete => Method::DELETE,
        }
    }
}

/// Who may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Without a token.
    Anybody,
    /// Whoever has a token; of one tenant, what is that tenant's.
    See,
    /// Who may lease.
    Lease,
    /// Who may let others in.
    Tokens,
    /// Who may see who did what.
    Audit,
    /// Who runs the fleet.
    Operate,
    Administrate,
}

impl Access {
    pub(crate) const fn allows(self, role: Role) -> bool {
        match self {
            Self::Anybody | Self::See => true,
            Self::Lease => !matches!(role, Role::Auditor),
            Self::Tokens => matches!(role, Role::Administrator | Role::TenantAdmin),
            Self::Audit => matches!(role, Role::Administrator | Role::Auditor),
            Self::Operate => matches!(role, Role::Administrator | Role::Operator),
            Self::Administrate => matches!(role, Role::Administrator),
        }
    }

    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Anybody => "anybody may",
            Self::See => "whoever has a token may",
            Self::Lease => "administrators, operators, tenant admins and members may",
            Self::Tokens => "administrators and tenant admins may",
            Self::Audit => "administrators and auditors may",
            Self::Operate => "administrators and operators may",
            Self::Administrate => "administrators may",
        }
    }
}

macro_rules! routes {
    ($($verb:ident $path:literal $id:literal $access:ident $takes:expr => $status:literal $gives:literal,
        $query:expr, $summary:literal, $run:path;)*) => {
        pub(crate) const ROUTES: &[Route] = &[$(Route {
            verb: Verb::$verb,
            path: $path,
            id: $id,
            summary: $summary,
            access: Access::$access,
            takes: $takes,
            gives: $gives,
            status: $status,
            query: $query,
            run: |call| Box::pin($run(call)),
        },)*];
    };
}

routes! {
    Get "/" "page" Anybody None => 200 "html",
        &[], "The page: fleet, leases, who waits, what is spent; a form asks for a token", page::show;
    Post "/" "enter-page" Anybody None => 303 "html",
        &[], "Keep the token of a form in a cookie that the page alone takes", page::enter;
    Get "/healthz" "health" Anybody None => 200 "text",
        &[], "Whether the daemon lives", open::health;
    Get "/readyz" "ready" Anybody None => 200 "text",
        &[], "Whether it answers: 503 while it starts or stops", open::ready;
    Get "/openapi.json" "openapi" Anybody None => 200 "json",
        &[], "This description", open::openapi;
    Get "/metrics" "metrics" Anybody None => 200 "text",
        &[], "Metrics for Prometheus; none names a tenant", metrics::show;
    Get "/v1/fleet" "show-fleet" See None => 200 "FleetAnswer",
        &[], "The fleet and who holds what of it; of others' leases only that there is one", fleet::show;
    Post "/v1/fleet:compare" "compare-fleet" Operate Some("FleetDocument") => 200 "FleetChangeList",
        &[], "What would be otherwise if the fleet were as a fleet file says, and what of it cannot be", fleet::compare;
    Put "/v1/fleet" "set-fleet" Administrate Some("FleetDocument") => 200 "FleetChangeList",
        &[], "Let the fleet be as a fleet file says, but for what is refused by name", fleet::set;
    Post "/v1/nodes" "add-nodes" Operate Some("FleetDocument") => 201 "FleetChangeList",
        &[], "Let nodes join: all of them, or none", fleet::add;
    Post "/v1/nodes/{node}" "tell-node" Operate Some("NodeAsk") => 200 "NodeAnswer",
        &[], "Cordon, uncordon, drain or fence a node", fleet::tell;
    Delete "/v1/nodes/{node}" "remove-node" Operate None => 204 "nothing",
        &[], "Take a node that holds nothing out of the fleet", fleet::remove;
    Get "/v1/tenants" "list-tenants" See None => 200 "TenantList",
        &[], "Tenants, their quotas, budgets and what is spent of them", tenants::list;
    Post "/v1/tenants" "create-tenant" Administrate Some("TenantAsk") => 201 "TenantAnswer",
        &[], "Create a tenant", tenants::create;
    Get "/v1/tenants/{tenant}" "show-tenant" See None => 200 "TenantAnswer",
        &[], "A tenant", tenants::show;
    Get "/v1/tenants/{tenant}/statements/{month}" "show-statement" See None => 200 "StatementAnswer",
        &[("format", "`json` (usual), `focus` (FOCUS 1.2 CSV) or `html` (a page that prints well)")],
        "What a tenant is charged for a month, such as 2026-11, or `this`", statements::show;
    Get "/v1/leases" "list-leases" See None => 200 "LeaseList",
        &[
            ("state", "only leases in this state; `open`: that are not over"),
            ("tenant", "only this tenant's"),
            ("limit", "at most so many, 1 to 1000 (100)"),
            ("cursor", "`next` of the page before"),
        ],
        "Leases, the newest first", leases::list;
    Post "/v1/leases" "request-lease" Lease Some("LeaseAsk") => 201 "LeaseAnswer",
        &[], "Ask for a lease; with `Idempotency-Key` the same lease is answered to a repeated request",
        leases::request;
    Get "/v1/leases/{lease}" "show-lease" See None => 200 "LeaseAnswer",
        &[], "A lease", leases::show;
    Delete "/v1/leases/{lease}" "release-lease" Lease None => 202 "LeaseAnswer",
        &[], "Give a lease back: what runs is stopped, and its GPUs are free", leases::release;
    Get "/v1/leases/{lease}/explanation" "explain-lease" See None => 200 "ExplanationAnswer",
        &[], "Why a lease waits and what would help, or why it is where it is", leases::explain;
    Put "/v1/leases/{lease}/scaling" "set-scaling" Lease Some("ScalePolicy") => 200 "LeaseAnswer",
        &[], "Let the service of a lease follow demand by this policy from now on", scaling::set;
    Get "/v1/leases/{lease}/log" "show-log" See None => 200 "LeaseLogAnswer",
        &[
            ("worker", "which worker, from 0 (0)"),
            ("after", "only from this byte on: `next` of the piece before"),
            ("tail", "only the last so many lines"),
        ],
        "What a worker of a lease wrote, at most 1 MiB of it", logs::show;
    Get "/v1/leases/{lease}/usage" "show-usage" See None => 200 "LeaseUsageAnswer",
        &[("last", "of the last so long, such as 24h (24h)")],
        "What a lease used lately, and how much of the time was measured", usage::show;
    Get "/v1/leases/{lease}/deployment" "show-deployment" See None => 200 "json",
        &[], "The deployment of a lease's model, as `gpuwise plan --save` writes it", usage::deployment;
    Post "/v1/usage" "report-usage" Lease Some("UsageEvent") => 200 "UsageAnswer",
        &[], "Tell what leases used: a CloudEvent, or an array of them", usage::report;
    Get "/v1/usage" "follow-usage" See None => 200 "cloudevents",
        &[
            ("after", "only of events of the log after this one; `Link` says the next"),
            ("limit", "events of the log that are looked at, 1 to 10000 (1000)"),
        ],
        "What leases used, as it was told: a batch of CloudEvents", usage::events;
    Get "/v1/slos" "list-slos" See None => 200 "SloList",
        &[], "SLOs, error budgets and how fast they burn", slos::list;
    Post "/v1/slos" "set-slo" Lease Some("SloAsk") => 200 "SloAnswer",
        &[], "Set the SLO of a lease or a tenant", slos::set;
    Get "/v1/slos/{slo}" "show-slo" See None => 200 "SloAnswer",
        &[], "An SLO", slos::show;
    Delete "/v1/slos/{slo}" "remove-slo" Lease None => 204 "nothing",
        &[], "Take an SLO back", slos::remove;
    Get "/v1/slos:rules" "slo-rules" See None => 200 "yaml",
        &[], "Rules for Prometheus that call somebody when an error budget burns too fast", slos::rules;
    Get "/v1/slos:costs" "slo-costs" See None => 200 "SloCostList",
        &[], "What demands that were raised for SLOs at risk cost whom: stops, GPU-hours, money, waits",
        slos::costs;
    Get "/v1/proposals" "list-proposals" See None => 200 "ProposalList",
        &[], "Right-sizing proposals, the newest first", proposals::list;
    Get "/v1/proposals/{proposal}" "show-proposal" See None => 200 "ProposalAnswer",
        &[], "A right-sizing proposal, each step with its reason", proposals::show;
    Post "/v1/proposals/{proposal}" "decide-proposal" Lease Some("ProposalDecision") => 200 "ProposalAnswer",
        &[], "Accept or reject a proposal", proposals::decide;
    Get "/v1/models" "list-models" See None => 200 "ServedModels",
        &[], "Models that services serve (OpenAI's form)", gateway::models;
    Post "/v1/chat/completions" "complete-chat" Lease Some("CompletionAsk") => 200 "json",
        &[], "Ask a service (OpenAI's form); one that gave its GPUs back is woken, and the request waits",
        gateway::chat;
    Post "/v1/completions" "complete" Lease Some("CompletionAsk") => 200 "json",
        &[], "Ask a service for a completion of a prompt (OpenAI's form)", gateway::completions;
    Get "/v1/tokens" "list-tokens" Tokens None => 200 "TokenList",
        &[], "Tokens, by name", tokens::list;
    Post "/v1/tokens" "create-token" Tokens Some("TokenAsk") => 201 "TokenAnswer",
        &[], "Make a token; it is said this once", tokens::create;
    Delete "/v1/tokens/{name}" "revoke-token" Tokens None => 204 "nothing",
        &[("tenant", "of this tenant; left out: of none")], "Make a token useless", tokens::revoke;
    Get "/v1/secrets" "list-secrets" See None => 200 "SecretList",
        &[], "Secrets of tenants, but for their values", secrets::list;
    Put "/v1/tenants/{tenant}/secrets/{secret}" "set-secret" Lease Some("SecretAsk") => 204 "nothing",
        &[], "Set a secret, which leases of the tenant may name; no answer has its value", secrets::set;
    Delete "/v1/tenants/{tenant}/secrets/{secret}" "remove-secret" Lease None => 204 "nothing",
        &[], "Remove a secret; what runs keeps what it was given", secrets::remove;
    Get "/v1/events" "follow-events" See None => 200 "events",
        &[("after", "only events after this one; `Last-Event-ID` says the same")],
        "Events as they happen (server-sent), from any one on", events::follow;
    Patch "/v1/tenants/{tenant}" "change-tenant" Administrate Some("TenantChange") => 200 "TenantAnswer",
        &[], "Change a tenant's budget, quota or weight, or suspend it; `If-Match` with its `ETag` where nobody else may have",
        tenants::change;
    Get "/v1/offers" "list-offers" See None => 200 "OfferList",
        &[
            ("gpu", "only GPUs whose name holds this"),
            ("count", "GPUs on one node, 1 to 1024 (1)"),
            ("tenant", "at this tenant's prices; a tenant's own token has its own"),
        ],
        "What could be had now and when, at what price", offers::list;
    Post "/v1/plans:dry-run" "dry-run" Lease Some("LeaseAsk") => 200 "DryRunAnswer",
        &[], "What would become of a lease if it were asked for now; nothing is changed", dry::run;
    Get "/v1/plans" "list-plans" See None => 200 "PlanList",
        &[
            ("limit", "at most so many, 1 to 1000 (100)"),
            ("cursor", "`next` of the page before"),
        ],
        "What was decided, with what was weighed, the newest first", plans::list;
    Get "/v1/policies" "show-policy" See None => 200 "PolicyAnswer",
        &[], "By what the scheduler goes", policies::show;
    Put "/v1/policies" "set-policy" Administrate Some("PolicyFile") => 200 "PolicyAnswer",
        &[], "Let the scheduler go by another policy, which the log keeps; `If-Match` with the `ETag` of what was \
              seen where nobody else may have set one", policies::set;
    Get "/v1/reports/fleet" "report-fleet" See None => 200 "FleetReport",
        &[], "How the fleet is used, what of it nobody can use, who waits how long", plans::report;
    Get "/v1/prices" "list-prices" See None => 200 "PriceList",
        &[], "The price book: list prices, and those of tenants that one sees", prices::list;
    Post "/v1/prices" "set-price" Administrate Some("PriceAsk") => 201 "PriceList",
        &[], "Set a price from a moment on; the one that was for the same ends there", prices::set;
    Get "/v1/quotas" "list-quotas" See None => 200 "QuotaList",
        &[], "Quotas, and what is held of them", people::quotas;
    Get "/v1/budgets" "list-budgets" See None => 200 "BudgetList",
        &[], "Budgets of this month, what is spent and held back of them", people::budgets;
    Get "/v1/projects" "list-projects" See None => 200 "ProjectList",
        &[], "Projects that leases are for, and what they have", people::projects;
    Get "/v1/users" "list-users" Tokens None => 200 "UserList",
        &[], "Who may ask, and for how many leases each did", people::users;
    Get "/v1/jobs" "list-jobs" See None => 200 "JobList",
        &[
            ("limit", "at most so many, 1 to 1000 (100)"),
            ("cursor", "`next` of the page before"),
        ],
        "What runs, or is to run, on leases, the newest first", people::jobs;
    Get "/v1/reservations" "list-reservations" See None => 200 "ReservationList",
        &[], "GPUs that are kept for tenants", reservations::list;
    Post "/v1/reservations" "create-reservation" Operate Some("ReservationAsk") => 201 "ReservationAnswer",
        &[], "Keep GPUs of a node for a tenant, from when to when", reservations::create;
    Delete "/v1/reservations/{reservation}" "withdraw-reservation" Operate None => 204 "nothing",
        &[], "Withdraw a reservation", reservations::withdraw;
    Get "/v1/audit" "list-audit" Audit None => 200 "AuditList",
        &[
            ("by", "only what this token's name asked for"),
            ("limit", "at most so many, 1 to 1000 (100)"),
            ("cursor", "`next` of the page before"),
        ],
        "Who did what, the newest first", audit::list;
}
