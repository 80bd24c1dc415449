//! What programs read of a plan: every field once, with units in the names of keys.

mod deployment;
mod figures;
mod workload;

use super::tables::ranked;
use crate::record::{Fields, Record};
use gpuwise_domain::deployment::{ModelSummary, Sizing};

impl Record for Sizing {
    const NAME: &'static str = "ServingPlan";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("feasible", |s| !s.deployments.is_empty());
        of.group("model", |s| &s.model);
        of.group("workload", |s| &s.workload);
        of.field("objective", |s| s.objective.name());
        of.made("deployments", ranked);
        of.list("points", |s| &s.points);
        of.list("dropped", |s| &s.dropped);
        of.field("considered", |s| s.considered);
        of.list("curve", |s| &s.curve);
        of.field("notes", |s| &s.notes);
    }
}

impl Record for ModelSummary {
    const NAME: &'static str = "Model";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("name", |m| &m.name);
        of.field("origin", |m| &m.origin);
        of.field("model_type", |m| &m.model_type);
        of.field("parameters", |m| m.parameters);
        of.field("active_parameters", |m| m.active_parameters);
        of.field("layers", |m| m.layers);
        of.field("published_weights", |m| &m.published);
        of.field("weight_bytes", |m| m.weight_bytes);
        of.field("kv_bytes_per_token", |m| m.cache_bytes_per_token);
        of.field("max_context_tokens", |m| m.max_context);
        of.field("assumptions", |m| &m.assumptions);
    }
}
