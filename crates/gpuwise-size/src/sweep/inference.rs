//! What serving takes: the smallest number of GPUs on which the engine holds all requests.

use super::{Entry, Ground, Need, Purpose, Row, rules::rule_bytes};
use crate::{
    engines,
    formats::weights_named,
    knowledge::Corrections,
    memory,
    search::{cheapest_rental, per_hour},
    setup::{Setup, Weights},
};
use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use gpuwise_domain::{
    deployment::Settings, gpu::Device, layout::Layout, model::Architecture, workload::Limits,
};
use gpuwise_units::Bytes;

/// GPUs that tensor parallelism joins at most; stages join more.
const HOST: u32 = 8;
/// Pipeline stages that are tried beside a full host of tensor-parallel ranks.
const STAGES: [u32; 6] = [2, 3, 4, 6, 8, 16];

/// One row: `concurrency` requests of `context` tokens at once with weights in `format`.
///
/// # Errors
/// When the format is none that this model can have.
pub fn inference(
    entry: &Entry<'_>,
    ground: &Ground<'_>,
    format: &str,
    context: u64,
    concurrency: u64,
) -> Result<Row, String> {
    let weights = weights_of(entry.architecture, format)
        .ok_or_else(|| format!("{format:?} is no weight format that is known"))?;
    let parameters = entry.architecture.parameters().0;
    Ok(Row {
        model: entry.name.clone(),
        parameters,
        rule: rule_bytes(parameters, nominal_bits(&weights)),
        gpu: ground.device.name(),
        need: need(entry, ground, &weights, context, concurrency),
        purpose: Purpose::Inference {
            format: weights.name(),
            context,
            concurrency,
        },
    })
}

fn weights_of(architecture: &Architecture, format: &str) -> Option<Weights> {
    let published = Weights::published(architecture);
    if published.name() == format {
        return Some(published);
    }
    weights_named(architecture, format)
}

/// Bits of a weight as its format is called: 4 for formats of 4.156 and of 4.5 bits.
fn nominal_bits(weights: &Weights) -> f64 {
    let first = weights
        .quantization
        .as_ref()
        .and_then(|scheme| scheme.assignments.first());
    let format = first.map_or(weights.native, |assignment| assignment.format);
    libm::floor(format.bytes_per_element() * 8.0 + 1e-9)
}

fn need(
    entry: &Entry<'_>,
    ground: &Ground<'_>,
    weights: &Weights,
    context: u64,
    concurrency: u64,
) -> Result<Need, String> {
    let mut best: Option<((u32, u32, u32), Need)> = None;
    for layout in layouts(&ground.device, entry.architecture) {
        let setup = setup(entry, ground, weights, layout, context);
        let plan = memory::plan(&setup);
        let most = plan
            .sequences(context as f64)
            .min(setup.settings.sequences.max(1) as f64);
        if plan.cache <= 0.0 || most < 1.0 {
            continue;
        }
        let replicas = concurrency.div_ceil(libm::floor(most) as u64).max(1);
        let Ok(replicas) = u32::try_from(replicas) else {
            continue;
        };
        let each = layout.replica_gpus();
        let Some(gpus) = replicas.checked_mul(each) else {
            continue;
        };
        // Of layouts on as many GPUs, the one that holds the weights least often; stages only where hosts are too small.
        let rank = (gpus, layout.pipeline, replicas);
        if best.as_ref().is_some_and(|(known, _)| *known <= rank) {
            continue;
        }
        let ranks = f64::from(gpus);
        let overheads: f64 = plan.overheads.iter().map(|o| o.bytes).sum();
        let sequence = plan.cache_shape.sequence_bytes(context as f64) * f64::from(each);
        let rental = cheapest_rental(
            ground.catalogue,
            &Limits::default(),
            ground.terms,
            &ground.device,
            (replicas, each),
        );
        let need = Need {
            weights: Bytes::from_f64(plan.weight_bytes() * ranks),
            held: Bytes::from_f64(sequence * concurrency as f64),
            other: Bytes::from_f64(overheads.max(0.0) * ranks),
            gpus,
            replicas,
            layout: Layout { replicas, ..layout }.to_string(),
            per_hour: rental.as_ref().and_then(per_hour),
            rental,
        };
        best = Some((rank, need));
    }
    best.map(|(_, need)| need).ok_or_else(|| {
        format!(
            "{} with {context} tokens fits no layout of up to {} × {}",
            weights.name(),
            HOST * 16,
            ground.device.name()
        )
    })
}

fn setup<'a>(
    entry: &Entry<'a>,
    ground: &Ground<'a>,
    weights: &Weights,
    layout: Layout,
    context: u64,
) -> Setup<'a> {
    Setup {
        architecture: entry.architecture,
        device: ground.device,
        bucket: engines::model(ground.engine.kind).bucket(&ground.engine, ground.device.gpu),
        engine: ground.engine.clone(),
        layout,
        weights: weights.clone(),
        cache: ground.cache,
        settings: Settings {
            max_context: context,
            ..engines::model(ground.engine.kind).settings(
                &ground.engine,
                &ground.device,
                layout,
                None,
            )
        },
        draft: None,
        adapters: None,
        corrections: Corrections::default(),
    }
}

/// Layouts of one replica, the smallest first: tensor parallel within a host, stages beyond it. Slices have no peers.
pub fn layouts(device: &Device<'_>, architecture: &Architecture) -> Vec<Layout> {
    if device.slice.is_some() {
        return alloc::vec![Layout::SINGLE];
    }
    let divides = |ranks: u32| {
        architecture.attention_layers().all(|(_, mixer)| {
            let heads = mixer.attention_heads();
            heads.is_none_or(|heads| heads.is_multiple_of(u64::from(ranks)))
        })
    };
    let mut out: Vec<Layout> = [1, 2, 4, HOST]
        .into_iter()
        .filter(|ranks| divides(*ranks))
        .map(Layout::tensor)
        .collect();
    let widest = out.last().map_or(1, |layout| layout.tensor);
    let layers = architecture.layer_count();
    out.extend(
        STAGES
            .into_iter()
            .filter(|stages| u64::from(*stages) <= layers)
            .map(|pipeline| Layout {
                pipeline,
                ..Layout::tensor(widest)
            }),
    );
    out
}
