//! A Modelfile of Ollama and the environment of its server, which runs llama.cpp's.
//!
//! Instructions: `docs/modelfile.mdx` and `parser/parser.go` of ollama/ollama at v0.33.0-rc2; options:
//! `api/types.go`; variables: `envconfig/config.go`; what of them becomes which flag of llama.cpp:
//! `llm/llama_server.go` (`num_batch` is both batches, a context is that of each request). Formats of
//! the cache: `docs/faq.mdx`. Names of the hub: huggingface.co/docs/hub/ollama.

use super::{
    EmitError, Form,
    arguments::{Script, Server},
    kubernetes::name,
    shell::{comments, quoted},
};
use gpuwise_domain::deployment::Deployment;
use gpuwise_units::Bytes;
use std::fmt::Write as _;

/// What the cache can be stored as.
const CACHES: [&str; 3] = ["f16", "q8_0", "q4_0"];

pub(super) fn modelfile(script: &Script, deployment: &Deployment) -> Result<String, EmitError> {
    let Some(server) = script.servers.first() else {
        return Ok(String::new());
    };
    refuse(deployment)?;
    let cache = flag(server, "--cache-type-k").unwrap_or("f16");
    if !CACHES.contains(&cache) {
        return Err(cannot(
            format!("stores the cache as {}, not as {cache}", CACHES.join(", ")),
            "plan with --kv of one of these, or emit llamacpp",
        ));
    }
    let from = from(server, deployment)?;
    let slots = flag(server, "--parallel").unwrap_or("1");
    let mut out = comments(script);
    if server.replicas > 1 {
        let _ = writeln!(
            out,
            "# start this {} times, each with CUDA_VISIBLE_DEVICES and OLLAMA_HOST of its own, behind a load balancer",
            server.replicas
        );
    }
    let _ = write!(out, "cat > Modelfile <<'EOF'\nFROM {from}\n");
    let context = deployment.settings.max_context;
    if context > 0 {
        let _ = writeln!(out, "PARAMETER num_ctx {context}");
    }
    let _ = writeln!(
        out,
        "PARAMETER num_batch {}",
        deployment.settings.batched_tokens
    );
    if let Some(layers) = flag(server, "--n-gpu-layers") {
        let _ = writeln!(out, "PARAMETER num_gpu {layers}");
    }
    out.push_str("EOF\n");
    let mut variables = Vec::new();
    if context > 0 {
        variables.push(("OLLAMA_CONTEXT_LENGTH", context.to_string()));
    }
    variables.push(("OLLAMA_NUM_PARALLEL", slots.to_string()));
    variables.push(("OLLAMA_KV_CACHE_TYPE", cache.to_string()));
    if cache != "f16" {
        // Quantized caches need it.
        variables.push(("OLLAMA_FLASH_ATTENTION", "1".into()));
    }
    if server.gpus > 1 {
        variables.push(("OLLAMA_SCHED_SPREAD", "1".into()));
    }
    for (variable, value) in variables {
        let _ = write!(out, "{variable}={value} \\\n  ");
    }
    let _ = write!(
        out,
        "ollama serve\n# once it runs, beside it: ollama create {} -f Modelfile\n",
        quoted(&name(deployment, server))
    );
    Ok(out)
}

fn cannot(problem: impl Into<String>, instead: &str) -> EmitError {
    EmitError::NotInForm {
        form: Form::Ollama.name(),
        problem: problem.into(),
        instead: instead.into(),
    }
}

/// Refuses what llama.cpp's server does and Ollama has no words for.
fn refuse(deployment: &Deployment) -> Result<(), EmitError> {
    let layout = &deployment.layout;
    let instead = "emit llamacpp";
    if layout.tensor > 1 {
        return Err(cannot(
            format!(
                "splits models by layers over GPUs, not by rows (TP{})",
                layout.tensor
            ),
            instead,
        ));
    }
    if deployment.draft_tokens > 0 {
        return Err(cannot(
            "is not written here with models that draft, as this deployment has",
            instead,
        ));
    }
    if deployment.host_cache > Bytes::ZERO {
        return Err(cannot(
            "has no setting for host memory that keeps prefixes, as this deployment has",
            instead,
        ));
    }
    Ok(())
}

/// A flag's value among those of llama.cpp's own server.
fn flag<'a>(server: &'a Server, name: &str) -> Option<&'a str> {
    let found = server.flags.iter().find(|(flag, _)| flag == name)?;
    found.1.as_deref()
}

/// The GGUF file, or the repository that has it. The instruction takes the rest of its line, without
/// blanks around it.
fn from(server: &Server, deployment: &Deployment) -> Result<String, EmitError> {
    let source = match (flag(server, "--model"), flag(server, "--hf-repo")) {
        (Some(file), _) => file.to_string(),
        (None, Some(repository)) => format!("hf.co/{repository}"),
        (None, None) => deployment.model.clone(),
    };
    if source.chars().any(char::is_control) {
        return Err(cannot(
            format!("reads the model's name from one line, and {source:?} has others"),
            "rename the file",
        ));
    }
    if source.trim() != source || source.starts_with('"') {
        return Ok(format!("\"\"\"{source}\"\"\""));
    }
    Ok(source)
}
