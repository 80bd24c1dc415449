//! `--emit`: what starts the picked deployment.

use crate::{
    catalogue::{self, Loaded},
    error::Problem,
};
use gpuwise_domain::{deployment::Deployment, facts, gpu::Device};
use gpuwise_view::launch::{self, Form};

/// The launch command or manifest.
///
/// # Errors
/// When the form is of another engine, or the release lacks a flag that is needed.
pub(super) fn text(form: &str, deployment: &Deployment, loaded: &Loaded) -> anyhow::Result<String> {
    let form =
        Form::by_name(form).ok_or_else(|| Problem::new(format!("--emit {form}: no such form")))?;
    let known = &loaded.catalogue;
    let gpu = known
        .gpu(&deployment.gpu)
        .ok_or_else(|| Problem::new(format!("GPU {:?} is not in the catalogue", deployment.gpu)))?;
    let slice = deployment
        .slice
        .as_deref()
        .and_then(|name| known.mig_profiles(gpu).find(|known| known.profile == name));
    let device = Device { gpu, slice };
    let context = facts::Context::of(&device, &deployment.layout);
    let engine = catalogue::engine_facts(loaded, deployment.engine)?;
    launch::emit(form, deployment, &engine, &context).map_err(|error| {
        Problem::new(format!("--emit {}", form.name()))
            .because(error)
            .into()
    })
}
