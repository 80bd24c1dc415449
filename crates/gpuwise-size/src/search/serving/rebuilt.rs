//! A saved deployment as the setup that it was made from.

use super::candidates::USUAL_ACCEPTANCE;
use crate::{
    engines,
    formats::weights_named,
    knowledge::Corrections,
    setup::{Draft, Setup, Weights},
};
use alloc::string::String;
use gpuwise_domain::{
    catalogue::Catalogue,
    deployment::Deployment,
    engine::Engine,
    gpu::Device,
    layout::Layout,
    model::Architecture,
    precision::{CacheFormat, WeightFormat},
};

/// Why a deployment is no setup on this catalogue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RebuildError {
    /// The GPU is not there.
    #[error("`gpu`: {name:?} is not in the catalogue; did you mean {like}?")]
    Gpu {
        /// As the deployment says.
        name: String,
        like: String,
    },
    /// The GPU has no such slice.
    #[error("`slice`: {gpu} has no MIG profile {profile:?}")]
    Slice { gpu: String, profile: String },
    /// The weight format is unknown.
    #[error("`weights`: {0:?} is no weight format that is known")]
    Weights(String),
    /// The cache format is unknown.
    #[error("`cache`: {0:?} is no format of the key-value cache")]
    Cache(String),
    /// The model that drafts was not handed over.
    #[error("`draft_model`: {0:?} drafts, and its shape is not known")]
    Drafter(String),
}

/// The setup of a deployment's serving pool, and that of its prefill pool where it has one.
///
/// `drafter` is the shape of the model that drafts.
///
/// # Errors
/// When the catalogue lacks what the deployment names.
pub fn setups<'a>(
    deployment: &Deployment,
    architecture: &'a Architecture,
    drafter: Option<&'a Architecture>,
    catalogue: &'a Catalogue,
) -> Result<(Setup<'a>, Option<Setup<'a>>), RebuildError> {
    let device = device(deployment, catalogue)?;
    let engine = Engine {
        release: deployment.release,
        ..Engine::newest(deployment.engine)
    };
    let weights = if deployment.weights_published {
        let mut weights = Weights::published(architecture);
        // Cast as the engine casts on this GPU.
        let halves = [WeightFormat::BF16, WeightFormat::F16];
        let cast = halves
            .into_iter()
            .find(|half| deployment.weights == half.name);
        if let Some(half) = cast.filter(|_| weights.quantization.is_none()) {
            weights.native = half;
        }
        weights
    } else {
        weights_named(architecture, &deployment.weights)
            .ok_or_else(|| RebuildError::Weights(deployment.weights.clone()))?
    };
    let cache = CacheFormat::by_name(&deployment.cache)
        .ok_or_else(|| RebuildError::Cache(deployment.cache.clone()))?;
    if let (Some(name), None) = (&deployment.draft_model, drafter) {
        return Err(RebuildError::Drafter(name.clone()));
    }
    let setup = Setup {
        architecture,
        device,
        bucket: engines::model(engine.kind).bucket(&engine, device.gpu),
        engine,
        layout: Layout {
            replicas: 1,
            ..deployment.layout
        },
        weights,
        cache,
        settings: deployment.settings,
        draft: Some(Draft {
            tokens: deployment.draft_tokens,
            acceptance: deployment.acceptance.unwrap_or(USUAL_ACCEPTANCE),
            model: drafter,
        }),
        adapters: deployment.adapters,
        corrections: Corrections::default(),
    };
    let prefill = deployment.prefill.map(|pool| Setup {
        layout: Layout {
            replicas: 1,
            ..pool.layout
        },
        ..setup.clone()
    });
    Ok((setup, prefill))
}

fn device<'a>(
    deployment: &Deployment,
    catalogue: &'a Catalogue,
) -> Result<Device<'a>, RebuildError> {
    let gpu = catalogue
        .gpu(&deployment.gpu)
        .ok_or_else(|| RebuildError::Gpu {
            name: deployment.gpu.clone(),
            like: catalogue.gpus_like(&deployment.gpu).join(", "),
        })?;
    let Some(profile) = &deployment.slice else {
        return Ok(Device::whole(gpu));
    };
    let slice = catalogue
        .mig_profiles(gpu)
        .find(|slice| slice.profile == *profile)
        .ok_or_else(|| RebuildError::Slice {
            gpu: gpu.name.clone(),
            profile: profile.clone(),
        })?;
    Ok(Device {
        gpu,
        slice: Some(slice),
    })
}
