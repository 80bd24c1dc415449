//! Replicas as the engines of their saved deployments: step times by the same functions as a plan's.

use super::plan::left_of;
use crate::{
    catalogue,
    commands::{Context, series},
    error::Problem,
    knowledge,
    simulation::{self, Shapes, Simulated},
};
use gpuwise_domain::{
    scale::ScaleOffer,
    workload::{LengthDistribution, Lengths},
};
use gpuwise_scale::{
    controller::RequestTokens,
    fluid::Demand,
    step::{Engine, Engines, Length},
    variant::Variant,
};
use gpuwise_sim::{
    cost::StepCost as _,
    tables::{Usual, tables},
};
use std::path::{Path, PathBuf};

/// Engines of all variants, and what requests on them are like.
pub(super) struct Built {
    /// By the name of the variant.
    engines: Vec<(String, Engine)>,
    prompt: Length,
    answer: Length,
    /// Of a trace that says tokens: their means, reading by reading.
    over_time: Vec<(f64, f64)>,
    first_token: f64,
    token: Option<f64>,
    /// Seconds that a request may wait before its prompt is computed.
    pub(super) wait: f64,
    /// What a controller counts requests in; `None`: it is fed by requests.
    pub(super) tokens: Option<RequestTokens>,
}

fn length(of: &LengthDistribution) -> Length {
    Length {
        mean: of.mean,
        variation: of.variation,
        longest: of.longest.0 as f64,
    }
}

/// Reads the deployments of variants; each must have been saved for the same requests.
pub(super) fn built(
    context: &Context,
    (file, offers): (&Path, &[ScaleOffer]),
    (trace, demand): (&Path, Option<&Demand>),
    by_tokens: bool,
) -> anyhow::Result<Built> {
    let wrong = |one: &ScaleOffer, what: &str| {
        Problem::new(format!("{}: variant {}: {what}", file.display(), one.name))
    };
    let beside = file.parent().unwrap_or(Path::new(""));
    let loaded = catalogue::load(&context.app.overrides)?;
    let knowledge = knowledge::load(&loaded)?;
    let mut found: Option<(Lengths, Built)> = None;
    for one in offers {
        let name = one.deployment.as_deref().ok_or_else(|| {
            wrong(one, "no deployment says its engine")
                .hint("deployment = \"FILE\", as `gpuwise plan … --save FILE` writes")
        })?;
        let path: PathBuf = beside.join(name);
        let saved = simulation::read(&path)?;
        let workload = saved.workload.as_ref().ok_or_else(|| {
            wrong(one, "its deployment was saved without its traffic").hint("plan and save it anew")
        })?;
        let shapes = Shapes::of(&saved.deployment, &loaded, context.app.offline)?;
        let deployment = &saved.deployment;
        let seed = context.app.seed;
        let mut simulated = Simulated::new(deployment, &shapes, &loaded, &knowledge, seed)?;
        let (prompt, answer) = (&workload.lengths.input, &workload.lengths.output);
        let usual = Usual {
            prompt: prompt.mean,
            cached: workload.prefix_hit,
        };
        let deployed = &mut simulated.engine;
        let engine = tables(&deployed.settings, &mut deployed.cost, usual)
            .map_err(|error| wrong(one, "cannot be run as an engine").because(error))?;
        let target = workload.slo.ttft.ok_or_else(|| {
            wrong(
                one,
                "its deployment has no target of the time to first token",
            )
            .hint("plan with --ttft")
        })?;
        let around = simulated.engine.cost.around(prompt.mean as u32);
        let first_token = target.at_most.get() - around.before as f64 / 1e9;
        let wait = left_of(target, deployment)?;
        let all = found.get_or_insert_with(|| {
            let built = Built {
                engines: Vec::new(),
                prompt: length(prompt),
                answer: length(answer),
                over_time: Vec::new(),
                first_token,
                token: workload.slo.tpot.map(|target| target.at_most.get()),
                wait,
                tokens: by_tokens.then_some(RequestTokens {
                    prompt: prompt.mean,
                    answer: answer.mean,
                }),
            };
            (workload.lengths.clone(), built)
        });
        if all.0 != workload.lengths {
            return Err(wrong(one, "its deployment was planned for other requests")
                .hint("plan all of them with the same --isl and --osl")
                .into());
        }
        all.1.wait = all.1.wait.min(wait);
        all.1.first_token = all.1.first_token.min(first_token);
        all.1.engines.push((one.name.clone(), engine));
    }
    let (_, mut built) = found.ok_or_else(|| Problem::new("there is no variant"))?;
    if let Some(demand) = demand {
        built.over_time = over_time(trace, demand, &built)?;
    }
    Ok(built)
}

/// Mean tokens of a prompt and of an answer, reading by reading, of a trace that says them.
fn over_time(trace: &Path, demand: &Demand, built: &Built) -> anyhow::Result<Vec<(f64, f64)>> {
    let Some([requests, prompts, answers]) = series::tokens(trace)? else {
        return Ok(Vec::new());
    };
    let mut last = (built.prompt.mean, built.answer.mean);
    let each = (0..demand.rates.len()).map(|at| {
        let of = |series: &[Option<f64>]| series.get(at).copied().flatten();
        if let (Some(count), Some(prompt), Some(answer)) =
            (of(&requests), of(&prompts), of(&answers))
            && count > 0.0
        {
            last = (prompt / count, answer / count);
        }
        last
    });
    Ok(each.collect())
}

impl Built {
    /// The engines of some of the variants, in their order.
    pub(super) fn of(&self, variants: &[Variant]) -> Engines {
        let named = |name: &str| self.engines.iter().find(|(one, _)| one == name);
        let of = variants.iter().filter_map(|one| named(&one.name));
        Engines {
            of: of.map(|(_, engine)| engine.clone()).collect(),
            prompt: self.prompt,
            answer: self.answer,
            over_time: self.over_time.clone(),
            first_token: self.first_token,
            token: self.token,
        }
    }
}
