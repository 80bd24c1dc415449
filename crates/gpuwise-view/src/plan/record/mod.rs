//! What programs read of a plan: every field once, with units in the names of keys.

mod deployment;
mod figures;
mod workload;

use super::{deployments, tables::ranked};
use crate::{answer::Candidates, record::Fields, table::Table};
use gpuwise_domain::deployment::{
    Deployment, Dropped, ModelSummary, ServingCharts, ServingQuestion, Sizing,
};

impl Candidates for Deployment {
    type Question = ServingQuestion;
    type Charts = ServingCharts;
    const NAME: &'static str = "ServingPlan";

    fn question(of: &mut Fields<'_, Sizing>) {
        of.group("model", |s| &s.question.model);
        of.group("workload", |s| &s.question.workload);
        of.field("objective", |s| s.question.objective.name());
    }

    fn ranked(of: &mut Fields<'_, Sizing>) {
        of.made("deployments", ranked);
        of.list("points", |s| &s.charts.points);
    }

    fn charts(of: &mut Fields<'_, Sizing>) {
        of.list("curve", |s| &s.charts.curve);
    }

    fn table(answer: &Sizing) -> Table {
        deployments(answer)
    }

    fn rejected(answer: &Sizing) -> Vec<&Dropped> {
        answer.nearest()
    }
}

crate::record!(ModelSummary, "Model", |of| {
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
});
