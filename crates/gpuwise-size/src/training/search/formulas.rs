//! The search over the formulas of memory and time.

use super::{Cluster, Physics, flags::flags};
use crate::{
    knowledge::Knowledge,
    memory::visible_memory,
    training::{
        memory::{self, training_memory},
        rollout::{Rollout, rollout},
        time::{TrainingSystem, explain_step, recipe_peak, with_rollout},
    },
};
use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use gpuwise_domain::{
    estimate::Derivation,
    fix::Fix,
    gpu::Device,
    model::Architecture,
    training::{Recipe, StepTime, TrainingMemory, TrainingSetup},
    training_facts::TrainingFacts,
};
use gpuwise_units::Bytes;

/// Memory and time of a model by the formulas of this crate.
#[derive(Debug, Clone, Copy)]
pub struct Formulas<'a> {
    pub architecture: &'a Architecture,
    /// Constants and what was timed.
    pub facts: &'a TrainingFacts,
    /// What engines reach: rollouts alone ask for it.
    pub knowledge: Option<&'a Knowledge>,
}

/// Share of the link to the host that GPUs of a host reach between one another over it.
const HOST_LINK_SHARE: f64 = 0.5;

/// Bytes that a program sees on one GPU.
fn visible(cluster: &Cluster<'_>) -> f64 {
    visible_memory(&Device::whole(cluster.gpu)).0
}

/// Whether the GPU multiplies in the recipe's numbers; if not, why.
fn supported(setup: &TrainingSetup, cluster: &Cluster<'_>) -> Result<(), String> {
    let gpu = cluster.gpu;
    let lacks = match setup.recipe {
        Recipe::PureBf16 | Recipe::MixedBf16 => gpu.peak.bf16.is_none(),
        Recipe::Fp16 => gpu.peak.fp16.is_none(),
        _ => recipe_peak(gpu, setup).is_none(),
    };
    if lacks {
        let halves = matches!(setup.recipe, Recipe::PureBf16 | Recipe::MixedBf16);
        let fix = if halves && gpu.peak.fp16.is_some() {
            ": --recipe fp16"
        } else {
            ""
        };
        return Err(format!(
            "{} has no matmuls for recipe {}{fix}",
            gpu.name,
            setup.recipe.name()
        ));
    }
    Ok(())
}

impl Formulas<'_> {
    /// The links of a cluster. A link that joins fewer GPUs than a host has (a bridge between two)
    /// leaves the others to the host's own.
    fn system(&self, cluster: &Cluster<'_>) -> TrainingSystem {
        let system = TrainingSystem::usual(cluster.gpu, self.facts);
        let joined = cluster.gpus.min(u64::from(cluster.domain));
        let short = cluster
            .gpu
            .scale_up
            .as_ref()
            .is_some_and(|link| u64::from(link.domain) < joined);
        let rate = if short {
            HOST_LINK_SHARE * system.host
        } else {
            system.scale_up
        };
        let system = system.with_scale_up(rate, cluster.domain);
        match cluster.network {
            Some(network) => system.with_network(network),
            None => system,
        }
    }
}

impl Formulas<'_> {
    /// The rollout of a setup that has one.
    fn rollout(
        &self,
        setup: &TrainingSetup,
        cluster: &Cluster<'_>,
    ) -> Result<Option<Rollout>, String> {
        let (Some(grpo), Some(knowledge)) = (setup.grpo(), self.knowledge) else {
            return Ok(None);
        };
        rollout(self.architecture, setup, grpo, cluster.gpu, knowledge)
            .map(Some)
            .map_err(|error| error.to_string())
    }
}

impl Physics for Formulas<'_> {
    fn memory(
        &self,
        setup: &TrainingSetup,
        cluster: &Cluster<'_>,
    ) -> Result<TrainingMemory, String> {
        supported(setup, cluster)?;
        training_memory(self.architecture, setup).map_err(|error| error.to_string())
    }

    fn step(&self, setup: &TrainingSetup, cluster: &Cluster<'_>) -> Result<StepTime, String> {
        supported(setup, cluster)?;
        let system = self.system(cluster);
        let rollout = self.rollout(setup, cluster)?;
        Ok(with_rollout(
            self.architecture,
            setup,
            cluster.gpu,
            &system,
            self.facts,
            rollout.as_ref(),
        ))
    }

    fn usable(&self, cluster: &Cluster<'_>) -> Bytes {
        Bytes::from_f64(memory::usable(visible(cluster)))
    }

    fn checkpoint(&self, setup: &TrainingSetup) -> Bytes {
        // A setup whose memory is known has a checkpoint.
        memory::checkpoint_bytes(self.architecture, setup).unwrap_or(Bytes::ZERO)
    }

    fn fixes(&self, setup: &TrainingSetup, cluster: &Cluster<'_>) -> Vec<(Fix, TrainingSetup)> {
        let all = memory::fixes(self.architecture, setup, visible(cluster));
        all.into_iter()
            .filter(|fix| fix.enough)
            .map(|fix| {
                let said = Fix::Setup {
                    flags: flags(setup, &fix.setup, &cluster.gpu.name),
                    change: fix.change,
                    needs: Bytes::from_f64(fix.needs.value),
                    cost: fix.cost,
                };
                (said, fix.setup)
            })
            .collect()
    }

    fn derivations(&self, setup: &TrainingSetup, cluster: &Cluster<'_>) -> Vec<Derivation> {
        let system = self.system(cluster);
        // A plan's rollout was found before.
        let rollout = self.rollout(setup, cluster).ok().flatten();
        let step = explain_step(
            self.architecture,
            setup,
            cluster.gpu,
            &system,
            self.facts,
            rollout.as_ref(),
        );
        memory::explain(self.architecture, setup)
            .into_iter()
            .chain([step])
            .collect()
    }
}
