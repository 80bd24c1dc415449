//! Rows of deployments that compute prompts and answers on workers apart.

use super::{
    reading::{Pool, Reading},
    settings::settings,
};
use gpuwise_domain::{
    layout::Layout,
    question::{Load, Question},
    recipe::RecipeSettings,
};
use gpuwise_size::{setup::Setup, speed::StepShape};
use std::sync::Arc;

#[derive(Debug, Clone, Copy)]
struct Workers {
    layout: Layout,
    count: u32,
    /// Sequences of one worker's batch, where stated.
    batch: Option<f64>,
}

/// Splits a row that states both sides into its pools.
pub(super) fn disaggregate(
    question: &Question,
    recipe: &RecipeSettings,
    reading: &mut Reading<'_>,
) {
    let (prefill, decode) = (stated(question, "prefill"), stated(question, "decode"));
    if let (Load::Unstated, Some(batch)) = (&reading.load, decode.batch) {
        // What decode workers are said to hold is what is kept in flight.
        let groups = f64::from(decode.layout.attention_data) * f64::from(decode.count);
        reading.load = Load::InFlight(batch * groups);
    }
    split(question, recipe, reading, prefill, decode);
    reading
        .notes
        .push("prefill and decode run apart".to_string());
}

fn stated(question: &Question, side: &str) -> Workers {
    let number = |name: &str| {
        question
            .extra(&format!("{side}_{name}"))
            .and_then(|v| v.parse::<f64>().ok())
    };
    let get = |name: &str| number(name).unwrap_or(1.0).max(1.0) as u32;
    let (mut tensor, data) = (get("tp_size"), get("attention_dp_size"));
    let (expert_tensor, expert) = (get("moe_tp_size"), get("moe_ep_size"));
    // With data-parallel attention the tensor size names the same ranks again.
    if data > 1 && tensor == data {
        tensor = 1;
    }
    let stage = tensor * data;
    Workers {
        layout: Layout {
            tensor,
            pipeline: get("pp_size"),
            attention_data: data,
            expert: if expert_tensor * expert <= stage {
                expert
            } else {
                expert.min(stage)
            },
            ..Layout::SINGLE
        },
        count: get("num_workers"),
        batch: number("batch_size"),
    }
}

/// GPUs of a prefill worker of a pool, and of a decode worker for few requests.
const PREFILL_GPUS: u32 = 4;
const DECODE_GPUS: u32 = 8;
/// Concurrent requests for each GPU of a pool below which answers are decoded by tensor parallelism.
const FEW: f64 = 4.0;
/// Tokens that a GPU computes of prompts while it decodes one.
const PROMPT_TOKENS: f64 = 4.0;

/// Splits a pool of so many GPUs, of which the row says no more: prefill workers of four GPUs with
/// data-parallel attention, as many as prompts need beside answers, and the others decode: for few
/// requests on workers of eight tensor-parallel ranks, else on one with data-parallel attention.
pub(super) fn pooled(
    question: &Question,
    recipe: &RecipeSettings,
    reading: &mut Reading<'_>,
    gpus: u32,
) {
    let Load::InFlight(requests) = reading.load else {
        return;
    };
    let (Some(input), Some(output)) = (reading.input, reading.output) else {
        return;
    };
    let few = requests < FEW * f64::from(gpus);
    let wide = |gpus: u32| Layout {
        attention_data: gpus,
        expert: gpus,
        ..Layout::SINGLE
    };
    let share = input / (input + PROMPT_TOKENS * output);
    let most = (gpus / PREFILL_GPUS).saturating_sub(1).max(1);
    let workers = if few {
        1
    } else {
        let wanted = libm::round(f64::from(gpus / PREFILL_GPUS) * share);
        (wanted as u32).clamp(1, most)
    };
    let rest = gpus.saturating_sub(workers * PREFILL_GPUS).max(1);
    let prefill = Workers {
        layout: wide(PREFILL_GPUS),
        count: workers,
        batch: None,
    };
    let decode = if few && rest >= DECODE_GPUS {
        Workers {
            layout: Layout::tensor(DECODE_GPUS),
            count: rest / DECODE_GPUS,
            batch: None,
        }
    } else {
        Workers {
            layout: wide(rest),
            count: 1,
            batch: None,
        }
    };
    split(question, recipe, reading, prefill, decode);
    reading.notes.push(format!(
        "read as {} prefill workers of {PREFILL_GPUS} GPUs, the others decode",
        prefill.count
    ));
}

fn split(
    question: &Question,
    recipe: &RecipeSettings,
    reading: &mut Reading<'_>,
    prefill: Workers,
    decode: Workers,
) {
    let mut setup = reading.setup.clone();
    setup.layout = prefill.layout;
    set(question, recipe, &mut setup);
    reading.prefill = Some(Pool {
        shape: Arc::new(StepShape::new(&setup)),
        setup,
        workers: f64::from(prefill.count),
    });
    let setup = &mut reading.setup;
    setup.layout = Layout {
        replicas: decode.count,
        ..decode.layout
    };
    set(question, recipe, setup);
}

/// The settings of workers of this layout.
fn set(question: &Question, recipe: &RecipeSettings, setup: &mut Setup<'_>) {
    setup.settings = settings(question, &setup.engine, &setup.device, setup.layout, recipe);
}
