//! The table of routes.

use super::{
    LARGEST, Problem, call::Call, events, fleet, leases, metrics, open, page, statements, tenants,
    tokens,
};
use crate::gateway;
use axum::{http::Method, response::Response};
use gpuwise_wire::broker::Role;
use std::{future::Future, pin::Pin};

pub(crate) type Answered = Pin<Box<dyn Future<Output = Result<Response, Problem>> + Send>>;

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
    Delete,
}

impl Route {
    /// The largest body that is taken, in bytes.
    pub(crate) fn largest(&self) -> usize {
        match self.takes {
            Some("CompletionAsk") => gateway::LARGEST,
            _ => LARGEST,
        }
    }

    pub(crate) const fn method(&self) -> Method {
        match self.verb {
            Verb::Get => Method::GET,
            Verb::Post => Method::POST,
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
    Administrate,
}

impl Access {
    pub(crate) const fn allows(self, role: Role) -> bool {
        match self {
            Self::Anybody | Self::See => true,
            Self::Lease => !matches!(role, Role::Auditor),
            Self::Tokens => matches!(role, Role::Administrator | Role::TenantAdmin),
            Self::Administrate => matches!(role, Role::Administrator),
        }
    }

    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Anybody => "anybody may",
            Self::See => "whoever has a token may",
            Self::Lease => "administrators, operators, tenant admins and members may",
            Self::Tokens => "administrators and tenant admins may",
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
    Get "/v1/tenants" "list-tenants" See None => 200 "TenantList",
        &[], "Tenants, their quotas, budgets and what is spent of them", tenants::list;
    Post "/v1/tenants" "create-tenant" Administrate Some("TenantAsk") => 201 "TenantAnswer",
        &[], "Create a tenant", tenants::create;
    Get "/v1/tenants/{tenant}" "show-tenant" See None => 200 "TenantAnswer",
        &[], "A tenant", tenants::show;
    Get "/v1/tenants/{tenant}/statements/{month}" "show-statement" See None => 200 "StatementAnswer",
        &[("format", "`json` (usual) or `focus` (FOCUS 1.2 CSV)")],
        "What a tenant is charged for a month, such as 2026-11", statements::show;
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
    Get "/v1/events" "follow-events" See None => 200 "events",
        &[("after", "only events after this one; `Last-Event-ID` says the same")],
        "Events as they happen (server-sent), from any one on", events::follow;
}
