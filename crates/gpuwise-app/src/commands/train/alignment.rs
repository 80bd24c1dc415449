//! DPO and GRPO, as flags say them.

use super::choices::{counted, one_of_names};
use crate::{error::Problem, settings::AlignmentFlags};
use anyhow::Context as _;
use gpuwise_domain::alignment::{Alignment, Grpo, RolloutEngine, RolloutMode};
use gpuwise_read::workload as quantities;
use gpuwise_units::{Bytes, Nanoseconds};

/// Tokens of a prompt where none are stated.
const PROMPT: u64 = 512;
/// `max_completion_length` and `num_generations` of TRL 1.9.0.
const COMPLETION: u64 = 512;
const GENERATIONS: u64 = 8;
/// `vllm_gpu_memory_utilization` of TRL 1.9.0 beside training, and that of `trl vllm-serve`.
const SHARES: (f64, f64) = (0.3, 0.9);

/// The name of a method without what it learns from: `dpo-qlora` is DPO of `qlora`, `dpo` of every
/// weight.
pub(super) fn split(name: &str) -> (Option<&'static str>, &str) {
    for known in ["dpo", "grpo"] {
        let head = name.get(..known.len()).unwrap_or_default();
        let rest = name.get(known.len()..).unwrap_or_default();
        if head.eq_ignore_ascii_case(known) {
            if rest.is_empty() {
                return (Some(known), "full");
            }
            if let Some(method) = rest.strip_prefix(['-', '+', '_', ':']) {
                return (Some(known), method);
            }
        }
    }
    (None, name)
}

/// What is learned from, and tokens of a sequence where that says them.
///
/// # Errors
/// When a flag is wrong, or is of another method.
pub(super) fn alignment(
    kind: Option<&'static str>,
    flags: &AlignmentFlags,
) -> anyhow::Result<Option<Alignment>> {
    match kind {
        Some("grpo") => {
            if flags.precompute_ref_log_probs {
                return Err(foreign("--precompute-ref-log-probs", "dpo").into());
            }
            grpo(flags).map(Alignment::Grpo).map(Some)
        }
        kind => {
            if let Some(flag) = of_grpo(flags) {
                return Err(foreign(flag, "grpo").into());
            }
            if kind.is_none() && flags.precompute_ref_log_probs {
                return Err(foreign("--precompute-ref-log-probs", "dpo").into());
            }
            Ok(kind.map(|_| Alignment::Dpo {
                precomputed: flags.precompute_ref_log_probs,
            }))
        }
    }
}

fn foreign(flag: &str, method: &str) -> Problem {
    Problem::new(format!("{flag} is a setting of --method {method}"))
        .hint(format!("add --method {method}, or leave {flag} out"))
}

/// The first flag that GRPO alone has.
fn of_grpo(flags: &AlignmentFlags) -> Option<&'static str> {
    let stated = [
        ("--beta", flags.beta.is_some()),
        ("--num-generations", flags.num_generations.is_some()),
        ("--prompt-tokens", flags.prompt_tokens.is_some()),
        (
            "--max-completion-length",
            flags.max_completion_length.is_some(),
        ),
        ("--vllm-mode", flags.vllm_mode.is_some()),
        (
            "--vllm-gpu-memory-utilization",
            flags.vllm_gpu_memory_utilization.is_some(),
        ),
        (
            "--vllm-tensor-parallel-size",
            flags.vllm_tensor_parallel_size.is_some(),
        ),
        (
            "--vllm-data-parallel-size",
            flags.vllm_data_parallel_size.is_some(),
        ),
        ("--vllm-enable-sleep-mode", flags.vllm_enable_sleep_mode),
        ("--reward-time", flags.reward_time.is_some()),
    ];
    stated
        .into_iter()
        .find_map(|(flag, given)| given.then_some(flag))
}

fn grpo(flags: &AlignmentFlags) -> anyhow::Result<Grpo> {
    let tokens = |flag: &'static str, text: Option<&String>, usual: u64| {
        text.map_or(Ok(usual), |text| {
            quantities::tokens(text).map(|t| t.0).context(flag)
        })
    };
    let generations =
        counted("--num-generations", flags.num_generations.as_deref())?.unwrap_or(GENERATIONS);
    if !(2..=65_536).contains(&generations) {
        return Err(Problem::new(format!(
            "--num-generations {generations}: expected 2 to 65536"
        ))
        .hint("GRPO compares the completions of one prompt with each other")
        .into());
    }
    Ok(Grpo {
        generations,
        prompt: tokens("--prompt-tokens", flags.prompt_tokens.as_ref(), PROMPT)?,
        completion: tokens(
            "--max-completion-length",
            flags.max_completion_length.as_ref(),
            COMPLETION,
        )?,
        beta: number(
            "--beta",
            flags.beta.as_deref(),
            0.0,
            |n| n >= 0.0,
            "0 or more",
        )?,
        engine: engine(flags)?,
        reward: reward(flags.reward_time.as_deref())?,
    })
}

fn engine(flags: &AlignmentFlags) -> anyhow::Result<RolloutEngine> {
    let stated = flags.vllm_mode.as_deref().unwrap_or("colocate");
    let server = one_of_names("--vllm-mode", stated, &["colocate", "server"])? == "server";
    let beside = [
        (
            "--vllm-data-parallel-size",
            flags.vllm_data_parallel_size.is_some(),
            true,
        ),
        (
            "--vllm-enable-sleep-mode",
            flags.vllm_enable_sleep_mode,
            false,
        ),
    ];
    for (flag, given, of_server) in beside {
        if given && of_server != server {
            let mode = if of_server { "server" } else { "colocate" };
            return Err(
                Problem::new(format!("{flag} is a setting of --vllm-mode {mode}"))
                    .hint(format!("add --vllm-mode {mode}, or leave {flag} out"))
                    .into(),
            );
        }
    }
    let usual = if server { SHARES.1 } else { SHARES.0 };
    Ok(RolloutEngine {
        mode: if server {
            RolloutMode::Server {
                engines: flags.vllm_data_parallel_size.unwrap_or(1),
            }
        } else {
            RolloutMode::Colocate
        },
        tensor: flags.vllm_tensor_parallel_size.unwrap_or(1),
        share: number(
            "--vllm-gpu-memory-utilization",
            flags.vllm_gpu_memory_utilization.as_deref(),
            usual,
            |n| n > 0.0 && n <= 1.0,
            "a share above 0 and up to 1",
        )?,
        sleeps: flags.vllm_enable_sleep_mode,
        held: Bytes::ZERO,
    })
}

fn number(
    flag: &str,
    text: Option<&str>,
    usual: f64,
    allowed: impl Fn(f64) -> bool,
    expected: &str,
) -> anyhow::Result<f64> {
    let Some(text) = text else { return Ok(usual) };
    let number: f64 = text.trim().parse().unwrap_or(f64::NAN);
    if number.is_finite() && allowed(number) {
        return Ok(number);
    }
    Err(Problem::new(format!("{flag} {text}: expected {expected}")).into())
}

fn reward(text: Option<&str>) -> anyhow::Result<f64> {
    let Some(text) = text else { return Ok(0.0) };
    let time: Nanoseconds = text.parse().context("--reward-time")?;
    Ok(time.seconds().get())
}
