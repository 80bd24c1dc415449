//! Remembered proposals as documents.

use gpuwise_domain::usage::{
    Holder, ResourceRequest, Scope, proposal::ChangeKind, remembered::Remembered,
};
use gpuwise_units::{Currency, Money};
use serde::{Deserialize, Serialize};

/// The schema of a remembered proposal.
pub const PROPOSAL_SCHEMA: &str = "gpuwise/proposal/v1";

#[derive(Debug, Serialize, Deserialize)]
struct Document {
    schema: String,
    #[serde(default)]
    source: Option<String>,
    #[serde(default)]
    matchers: Option<String>,
    namespace: String,
    kind_of_workload: String,
    workload: String,
    tenant: String,
    made_at: i64,
    kind: String,
    /// Absent in documents of before changes could be combined.
    #[serde(default)]
    parts: Vec<String>,
    title: String,
    before: ResourceRequestDocument,
    wanted: ResourceRequestDocument,
    held_gpus: f64,
    currency: String,
    price_micros: Option<i64>,
    predicted_gpus: f64,
    predicted_micros: Option<i64>,
    latency_seconds: Option<f64>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ResourceRequestDocument {
    gpu: Option<String>,
    mig_profile: Option<String>,
    gpus: u32,
    replicas: u32,
    cpus: Option<f64>,
    container: Option<String>,
    #[serde(default)]
    cpus_limited: bool,
    #[serde(default)]
    mig_untold: bool,
    #[serde(default)]
    shared_by: u32,
}

impl ResourceRequestDocument {
    fn of(asked: &ResourceRequest) -> Self {
        Self {
            gpu: asked.gpu.clone(),
            mig_profile: asked.slice.clone(),
            gpus: asked.devices,
            replicas: asked.replicas,
            cpus: asked.cpus,
            container: asked.container.clone(),
            cpus_limited: asked.cpus_limited,
            mig_untold: asked.slice_untold,
            shared_by: asked.shared_by,
        }
    }

    fn asked(self) -> ResourceRequest {
        ResourceRequest {
            gpu: self.gpu,
            slice: self.mig_profile,
            devices: self.gpus,
            replicas: self.replicas,
            cpus: self.cpus,
            container: self.container,
            cpus_limited: self.cpus_limited,
            slice_untold: self.mig_untold,
            shared_by: self.shared_by,
        }
    }
}

/// Why a document is no remembered proposal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a remembered proposal: {0}")]
pub struct ProposalError(String);

/// Writes a remembered proposal.
///
/// # Errors
/// When a figure of it is not finite.
pub fn proposal_document(of: &Remembered) -> Result<String, ProposalError> {
    let currency = of
        .predicted
        .or(of.price)
        .map_or(Currency::USD, |money| money.currency);
    let document = Document {
        schema: PROPOSAL_SCHEMA.into(),
        source: of.scope.as_ref().map(|scope| scope.source.clone()),
        matchers: of.scope.as_ref().and_then(|scope| scope.matchers.clone()),
        namespace: of.holder.namespace.clone(),
        kind_of_workload: of.holder.kind.clone(),
        workload: of.holder.name.clone(),
        tenant: of.tenant.clone(),
        made_at: of.made_at,
        kind: of.kind.name().into(),
        parts: of.parts.iter().map(|part| part.name().into()).collect(),
        title: of.title.clone(),
        before: ResourceRequestDocument::of(&of.before),
        wanted: ResourceRequestDocument::of(&of.wanted),
        held_gpus: of.held,
        currency: currency.code().into(),
        price_micros: of.price.map(|money| money.micros),
        predicted_gpus: of.predicted_gpus,
        predicted_micros: of.predicted.map(|money| money.micros),
        latency_seconds: of.latency,
    };
    serde_json::to_string(&document).map_err(|error| ProposalError(error.to_string()))
}

/// Reads a remembered proposal.
///
/// # Errors
/// When the text is not one, or one of another version.
pub fn read_proposal(text: &str) -> Result<Remembered, ProposalError> {
    let document: Document =
        serde_json::from_str(text).map_err(|error| ProposalError(error.to_string()))?;
    if document.schema != PROPOSAL_SCHEMA {
        return Err(ProposalError(format!(
            "its schema is {:?}, where {PROPOSAL_SCHEMA} is known",
            document.schema
        )));
    }
    let currency: Currency = document
        .currency
        .parse()
        .map_err(|error: gpuwise_units::ParseQuantityError| ProposalError(error.to_string()))?;
    let money = |micros: Option<i64>| micros.map(|micros| Money { micros, currency });
    let kind_named = |name: &str| {
        let known = ChangeKind::ALL.into_iter().find(|kind| kind.name() == name);
        known.ok_or_else(|| ProposalError(format!("{name:?} is no known kind")))
    };
    let kind = kind_named(&document.kind)?;
    let mut parts = Vec::new();
    for part in &document.parts {
        parts.push(kind_named(part)?);
    }
    if parts.is_empty() {
        parts.push(kind);
    }
    let matchers = document.matchers;
    let scope = document.source.map(|source| Scope { source, matchers });
    Ok(Remembered {
        scope,
        holder: Holder {
            namespace: document.namespace,
            kind: document.kind_of_workload,
            name: document.workload,
        },
        tenant: document.tenant,
        made_at: document.made_at,
        kind,
        parts,
        title: document.title,
        before: document.before.asked(),
        wanted: document.wanted.asked(),
        held: document.held_gpus,
        price: money(document.price_micros),
        predicted_gpus: document.predicted_gpus,
        predicted: money(document.predicted_micros),
        latency: document.latency_seconds,
    })
}
