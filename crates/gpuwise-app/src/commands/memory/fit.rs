//! Whether so many requests of such a length fit a setup.

use gpuwise_domain::{deployment::MemoryReport, facts::EngineFacts, precision::WeightFormat};
use gpuwise_size::{
    memory::{self, MemoryPlan},
    setup::Setup,
    support::{Obstacle, cache_name, castable, obstacle_of},
};
use gpuwise_units::{Bytes, Tokens};

#[derive(Debug, Clone, Copy)]
pub(super) struct Demand {
    /// Tokens of a request.
    pub(super) context: u64,
    pub(super) concurrency: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Fit<'a> {
    pub(super) setup: Setup<'a>,
    pub(super) plan: MemoryPlan,
    pub(super) report: MemoryReport,
    pub(super) wanted: Demand,
    /// What the engine's release supports on which hardware.
    facts: Option<&'a EngineFacts>,
    /// What weights are stored in, where the engine may cast it on each hardware.
    stored: Option<WeightFormat>,
    /// Why it does not start, where it does not.
    pub(super) obstacle: Option<Obstacle>,
}

impl<'a> Fit<'a> {
    pub(super) fn new(
        mut setup: Setup<'a>,
        wanted: Demand,
        facts: Option<&'a EngineFacts>,
        stored: Option<WeightFormat>,
    ) -> Self {
        if let Some(stored) = stored {
            setup.weights.native = stored;
            setup = castable(setup, facts);
        }
        let plan = memory::plan(&setup);
        Self {
            obstacle: obstacle_of(&setup, facts, false),
            facts,
            stored,
            report: memory::report(&plan, &setup, wanted.context as f64),
            plan,
            setup,
            wanted,
        }
    }

    /// The same with one thing changed.
    pub(super) fn with(&self, change: impl FnOnce(&mut Setup<'a>)) -> Self {
        let mut setup = self.setup.clone();
        change(&mut setup);
        Self::new(setup, self.wanted, self.facts, self.stored)
    }

    /// The same for another load.
    pub(super) fn under(&self, wanted: Demand) -> Self {
        let mut setup = self.setup.clone();
        setup.settings.max_context = wanted.context;
        Self::new(setup, wanted, self.facts, self.stored)
    }

    /// Concurrent requests of the asked length that fit, on all attention groups.
    pub(super) fn requests(&self) -> f64 {
        if self.plan.cache <= 0.0 {
            return 0.0;
        }
        self.plan.sequences(self.wanted.context as f64)
            * f64::from(self.setup.layout.attention_data.max(1))
    }

    /// Tokens that the cache holds in requests of the asked length, on all attention groups.
    pub(super) fn held_tokens(&self) -> u64 {
        (self.requests() * self.wanted.context as f64) as u64
    }

    /// How the engine's log of its cache is to be read, where it counts layers that keep different
    /// things as if they were alike.
    pub(super) fn logged_as(&self) -> Option<String> {
        let shape = &self.plan.cache_shape;
        if shape.pool.is_none() && shape.split.is_none() || self.requests() < 1.0 {
            return None;
        }
        let logged = Tokens(self.report.cache_tokens);
        let held = Tokens(self.held_tokens());
        let context = Tokens(self.wanted.context);
        let form = match &shape.pool {
            Some(pool) if pool.by_requests => {
                let longest = Tokens(shape.max_context as u64);
                format!("the requests of {longest} tokens that fit, times that length")
            }
            Some(_) => "blocks ÷ groups of layers, as if every layer kept the whole context".into(),
            None => "those of layers without a window or a state".into(),
        };
        Some(format!(
            "layers keep different things: the engine logs {logged} tokens ({form}; the metric kv_cache_capacity means \
             this figure), and holds {held} tokens in requests of {context}"
        ))
    }

    pub(super) fn fits(&self) -> bool {
        self.requests() >= self.wanted.concurrency as f64
    }

    /// The format of the cache, as the engine has it on this hardware.
    pub(super) fn cache_name(&self) -> &'static str {
        cache_name(&self.setup, self.facts)
    }

    /// Whether the engine starts, and all requests fit.
    pub(super) fn serves(&self) -> bool {
        self.fits() && self.obstacle.is_none()
    }

    /// The least and the most that may be left to the cache (80 % range).
    pub(super) fn cache_range(&self) -> (Bytes, Bytes) {
        let (low, high) = memory::cache_range(&self.setup, &self.plan);
        let whole = |bytes: f64| Bytes::from_f64(bytes.max(0.0));
        (whole(low), whole(high))
    }

    /// Whether the edge between fitting and not lies inside the range.
    pub(super) fn is_tight(&self) -> bool {
        let (low, high) = memory::cache_range(&self.setup, &self.plan);
        let fits = |cache: f64| {
            let mut other = self.clone();
            other.plan.cache = cache;
            other.fits()
        };
        fits(low) != fits(high)
    }

    pub(super) fn short(&self) -> Bytes {
        if self.fits() {
            return Bytes::ZERO;
        }
        let groups = f64::from(self.setup.layout.attention_data.max(1));
        let each = self
            .plan
            .cache_shape
            .sequence_bytes(self.wanted.context as f64);
        Bytes::from_f64(each * (self.wanted.concurrency as f64 / groups).ceil() - self.plan.cache)
    }

    /// GPUs or slices of one replica.
    pub(super) fn gpus(&self) -> u32 {
        self.setup.layout.replica_gpus()
    }
}
