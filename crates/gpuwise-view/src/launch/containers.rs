//! `docker run` of an engine's image.

use super::{
    EmitError,
    arguments::{Script, Server},
    engine_at, own_form,
    shell::{command, comments, quoted},
    vendor, within_host,
};
use gpuwise_domain::{
    deployment::Deployment,
    engine::EngineKind,
    facts::{Context, EngineFacts, PoolRole, Vendor},
};
use std::fmt::Write as _;

/// How far the port of a prefill server lies from its engine's own.
pub(super) const PREFILL_PORT: u16 = 100;

/// GiB that ranks of one server exchange messages through.
pub(super) const SHARED_MEMORY: u64 = 16;

/// Shared memory of a server in GiB: that for messages, and the prefixes that are kept on the host,
/// which engines map there.
pub(super) fn shared_gib(server: &Server) -> u64 {
    SHARED_MEMORY + server.host_cache.count().div_ceil(1 << 30)
}

pub(super) fn docker(
    script: &Script,
    deployment: &Deployment,
    facts: &EngineFacts,
    context: &Context,
) -> Result<String, EmitError> {
    let image = image(deployment, facts, context)?;
    let mut out = comments(script);
    for server in &script.servers {
        within_host(deployment, server.gpus)?;
        if let Some(pool) = server.pool() {
            let _ = writeln!(out, "# {pool} pool");
        }
        if server.replicas > 1 {
            let _ = writeln!(
                out,
                "# start {} of these, each with GPUs and a published port of its own (--gpus '\"device=0,1\"', -p)",
                server.replicas
            );
        }
        if let Some((name, text)) = &server.file {
            let _ = write!(out, "cat > {name} <<'EOF'\n{text}EOF\n");
        }
        let mut words: Vec<String> = vec!["docker".into(), "run".into(), "--rm".into()];
        words.extend(devices(deployment, context, server));
        words.extend(["--shm-size".into(), format!("{}g", shared_gib(server))]);
        words.extend([
            "-p".into(),
            format!("{}:{}", published(server), server.port),
        ]);
        words.extend(["--env".into(), "HF_TOKEN".into()]);
        let _ = write!(
            out,
            "{}",
            words
                .iter()
                .map(|word| quoted(word))
                .collect::<Vec<_>>()
                .join(" ")
        );
        // These have a variable that the shell must read.
        out.push_str(" -v \"$HOME/.cache/huggingface:/root/.cache/huggingface\"");
        if let Some((name, _)) = &server.file {
            let _ = write!(out, " -v \"$PWD/{name}:/config/{name}:ro\"");
        }
        out.push_str(" \\\n  ");
        let (entry, rest) = entry_point(facts, server);
        let mut words: Vec<String> = Vec::new();
        if let Some(entry) = entry {
            words.extend(["--entrypoint".into(), entry.into()]);
        }
        words.push(image.clone());
        words.extend(rest.iter().cloned());
        out.push_str(&command(&words, server));
    }
    Ok(out)
}

/// The port of the host: both pools may stand on one.
fn published(server: &Server) -> u16 {
    match server.role {
        Some(PoolRole::Prefill) => server.port + PREFILL_PORT,
        _ => server.port,
    }
}

/// The engine's image for this vendor.
pub(super) fn image(
    deployment: &Deployment,
    facts: &EngineFacts,
    context: &Context,
) -> Result<String, EmitError> {
    let vendor = vendor(context);
    facts
        .image(vendor, deployment.release)
        .ok_or_else(|| EmitError::NoImage {
            engine: engine_at(deployment, facts),
            vendor: vendor.name(),
            own: own_form(deployment.engine),
        })
}

/// Whether an engine's images start their server themselves.
fn image_starts_server(engine: EngineKind) -> bool {
    super::engines::launcher(engine).is_some_and(super::engines::Launcher::image_starts_server)
}

/// The program, where the image does not start it, and what follows it.
pub(super) fn entry_point<'a>(
    facts: &EngineFacts,
    server: &'a Server,
) -> (Option<&'a str>, &'a [String]) {
    match server.words.split_first() {
        Some((_, rest)) if image_starts_server(facts.engine) => (None, rest),
        Some((program, rest)) => (Some(program), rest),
        None => (None, &[]),
    }
}

/// What gives a container its GPUs or slices.
fn devices(deployment: &Deployment, context: &Context, server: &Server) -> Vec<String> {
    match vendor(context) {
        Vendor::Nvidia if deployment.slice.is_some() => {
            // Slices go by GPU and instance, both from 0.
            let slices: Vec<String> = (0..server.gpus)
                .map(|instance| format!("0:{instance}"))
                .collect();
            vec!["--gpus".into(), format!("\"device={}\"", slices.join(","))]
        }
        Vendor::Nvidia => vec!["--gpus".into(), server.gpus.to_string()],
        Vendor::Amd => [
            "--device",
            "/dev/kfd",
            "--device",
            "/dev/dri",
            "--group-add",
            "video",
        ]
        .map(String::from)
        .to_vec(),
        Vendor::Intel => ["--device", "/dev/dri"].map(String::from).to_vec(),
    }
}
