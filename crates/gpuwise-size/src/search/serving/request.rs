//! What a plan is asked for.

use crate::{
    knowledge::Knowledge,
    setup::Setup,
    support::{Obstacle, obstacle_of},
};
use alloc::{string::String, vec::Vec};
use gpuwise_domain::{
    catalogue::Catalogue,
    deployment::{Adapters, Deployment, Objective},
    engine::Engine,
    facts::EngineFacts,
    layout::Layout,
    model::Architecture,
    offer::Terms,
    workload::Workload,
};

/// A model, its traffic, and what may be chosen.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// The model's name as it is shown and launched.
    pub name: String,
    pub origin: String,
    pub architecture: &'a Architecture,
    /// Traffic, SLO and limits.
    pub workload: &'a Workload,
    /// GPUs, offers, quality rows.
    pub catalogue: &'a Catalogue,
    /// Fitted constants, ranges and what the user measured.
    pub knowledge: &'a Knowledge,
    /// What the engine does and supports by release; `None`: only what hardware forbids is tested.
    pub facts: Option<&'a EngineFacts>,
    /// The same of every engine, of which another is named where this one does not do; empty: none is.
    pub engines: &'a [EngineFacts],
    /// The model that drafts, where [`Choices::draft_tokens`] are drafted; `None`: the model's own
    /// prediction layers.
    pub draft: Option<DraftModel<'a>>,
    /// What may be chosen.
    pub choices: Choices,
}

impl Request<'_> {
    /// What keeps a setup from starting.
    pub(crate) fn obstacle_of(&self, setup: &Setup<'_>) -> Option<Obstacle> {
        obstacle_of(setup, self.facts, self.choices.offload > 0)
    }
}

/// A smaller model that drafts for another.
#[derive(Debug, Clone)]
pub struct DraftModel<'a> {
    /// Its name as it is shown and launched.
    pub name: String,
    pub architecture: &'a Architecture,
}

/// What may be chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct Choices {
    pub engine: Engine,
    pub objective: Objective,
    /// Under which terms offers are priced.
    pub terms: Terms,
    /// Weight formats (`bf16`, `fp8`, `nvfp4`, `int4`…); empty: as published first, lower ones
    /// offered beside.
    pub weights: Vec<String>,
    /// Formats of the key-value cache (`fp16`, `fp8`); empty: 16 bits, lower ones are not tried.
    pub cache: Vec<String>,
    /// Whether MIG slices are candidates.
    pub slices: bool,
    /// Whether a replica may span hosts (pipeline stages over the network).
    pub hosts: bool,
    /// Whether prefill and decode pools apart are candidates.
    pub disaggregated: bool,
    /// Draft tokens a step by prediction layers or a draft model; 0: none.
    pub draft_tokens: u32,
    /// Share of draft tokens that are accepted, where drafting; `None`: the catalogue's usual 0.7.
    pub acceptance: Option<f64>,
    pub adapters: Option<Adapters>,
    /// Host memory in bytes per GPU that keeps prefixes which the cache has no room for; 0: none.
    pub offload: u64,
    /// Longest context to serve; `None`: the longest request.
    pub max_context: Option<u64>,
    /// Exactly this layout, GPU and settings: what somebody runs already.
    pub fixed: Option<Fixed>,
    /// What is stated of a replica's layout; the rest is chosen.
    pub layout: LayoutWish,
    /// GPUs of one replica at most; `None`: as many as a host or its fast link joins.
    pub replica_gpus: Option<u32>,
    /// GPUs whose absence is to be explained in full.
    pub why_not: Vec<String>,
    pub top: usize,
}

impl Choices {
    /// The newest release of an engine and nothing unusual.
    pub fn usual(engine: Engine) -> Self {
        Self {
            engine,
            objective: Objective::Cost,
            terms: Terms::OnDemand,
            weights: Vec::new(),
            cache: Vec::new(),
            slices: true,
            hosts: false,
            disaggregated: false,
            draft_tokens: 0,
            acceptance: None,
            adapters: None,
            offload: 0,
            max_context: None,
            fixed: None,
            layout: LayoutWish::default(),
            replica_gpus: None,
            why_not: Vec::new(),
            top: 5,
        }
    }
}

impl Choices {
    /// Takes what is not stated from a deployment, but for its GPU and layout.
    pub fn keep(&mut self, deployment: &Deployment) {
        if self.engine.release.is_none() && self.engine.kind == deployment.engine {
            self.engine.release = deployment.release;
        }
        if self.weights.is_empty() {
            // What was published may be cast anew.
            let published = deployment.weights_published.then(|| "published".into());
            let format = published.unwrap_or_else(|| deployment.weights.clone());
            self.weights.push(format);
        }
        if self.cache.is_empty() {
            self.cache.push(deployment.cache.clone());
        }
        if self.draft_tokens == 0 {
            self.draft_tokens = deployment.draft_tokens;
            self.acceptance = self.acceptance.or(deployment.acceptance);
        }
        self.adapters = self.adapters.or(deployment.adapters);
        if self.offload == 0 {
            self.offload = deployment.host_cache.count();
        }
        self.max_context
            .get_or_insert(deployment.settings.max_context);
    }
}

/// What is stated of a replica's layout, in ranks; the rest is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LayoutWish {
    pub tensor: Option<u32>,
    pub pipeline: Option<u32>,
    pub attention_data: Option<u32>,
    pub expert: Option<u32>,
}

impl LayoutWish {
    /// Whether a layout is as stated.
    pub(crate) fn allows(&self, layout: &Layout) -> bool {
        let is = |wanted: Option<u32>, has: u32| wanted.is_none_or(|wanted| wanted == has);
        is(self.tensor, layout.tensor)
            && is(self.pipeline, layout.pipeline)
            && is(self.attention_data, layout.attention_data)
            && is(self.expert, layout.expert)
    }
}

/// What somebody runs already, as far as a launch command says it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fixed {
    pub layout: Option<Layout>,
    /// Share of memory that the engine may take.
    pub memory_fraction: Option<f64>,
    /// Tokens of a step at most.
    pub batched_tokens: Option<u64>,
    /// Sequences of a step at most.
    pub sequences: Option<u64>,
    pub max_context: Option<u64>,
    /// Tokens of a cache block.
    pub block: Option<u64>,
    /// Whether CUDA graphs are off.
    pub eager: Option<bool>,
}
