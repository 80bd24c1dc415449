//! Parallel layouts as flags state them.

use crate::{error::Problem, settings::LayoutFlags};
use gpuwise_domain::{layout::Layout, model::Architecture};
use gpuwise_size::search::LayoutWish;

/// Doublings of the GPUs of a stage at most.
const MOST_DOUBLED: u32 = 6;

/// The layout that flags state; `None` where they state none.
///
/// # Errors
/// When the model cannot be spread so.
pub fn stated(flags: &LayoutFlags, architecture: &Architecture) -> anyhow::Result<Option<Layout>> {
    if [flags.tp, flags.pp, flags.dp, flags.ep]
        .iter()
        .all(Option::is_none)
    {
        return Ok(None);
    }
    let layout = Layout {
        tensor: flags.tp.unwrap_or(1),
        pipeline: flags.pp.unwrap_or(1),
        attention_data: flags.dp.unwrap_or(1),
        expert: flags.ep.unwrap_or(1),
        ..Layout::SINGLE
    };
    possible(flags, &layout, architecture)?;
    Ok(Some(layout))
}

/// What flags state of the layout of a plan, which chooses the rest.
///
/// # Errors
/// When the model cannot be spread so, or what runs states a layout already.
pub fn wish(
    flags: &LayoutFlags,
    architecture: &Architecture,
    runs: bool,
) -> anyhow::Result<LayoutWish> {
    let wish = LayoutWish {
        tensor: flags.tp,
        pipeline: flags.pp,
        attention_data: flags.dp,
        expert: flags.ep,
    };
    if wish == LayoutWish::default() {
        return Ok(wish);
    }
    if runs {
        return Err(
            Problem::new("--from states a layout, and --tp, --pp, --dp or --ep another")
                .hint("leave the layout out, or change it in the command")
                .into(),
        );
    }
    let whole = Layout {
        tensor: flags.tp.unwrap_or(1),
        pipeline: flags.pp.unwrap_or(1),
        attention_data: flags.dp.unwrap_or(1),
        // Where a part of a stage is left to choose, it is chosen so that experts divide.
        expert: match (flags.tp, flags.dp) {
            (Some(_), Some(_)) => flags.ep.unwrap_or(1),
            _ => 1,
        },
        ..Layout::SINGLE
    };
    possible(flags, &whole, architecture)?;
    // What of a stage is left to choose is a power of two.
    let open = flags.tp.is_none() || flags.dp.is_none();
    let stage = u64::from(whole.tensor) * u64::from(whole.attention_data);
    if let Some(expert) = flags.ep.filter(|_| open)
        && !(0..=MOST_DOUBLED).any(|power| (stage << power).is_multiple_of(u64::from(expert)))
    {
        let expert = u64::from(expert);
        return Err(Problem::new(format!(
            "--ep {expert}: experts are spread over the GPUs of a stage (--tp × --dp), which are chosen among powers of two"
        ))
        .hint(format!(
            "--ep {}, or state the stage: --dp {expert} --ep {expert}",
            expert.next_power_of_two() / 2
        ))
        .into());
    }
    Ok(wish)
}

fn possible(
    flags: &LayoutFlags,
    layout: &Layout,
    architecture: &Architecture,
) -> anyhow::Result<()> {
    let wrong = |what: String| Err(Problem::new(what).into());
    if let Some(expert) = flags.ep.filter(|ranks| *ranks > 1)
        && !architecture.has_experts()
    {
        return wrong(format!(
            "--ep {expert}: this model has no experts to spread"
        ));
    }
    if !layout.stage_gpus().is_multiple_of(layout.expert) {
        return wrong(format!(
            "--ep {}: experts are spread over the {} GPUs of a stage (--tp × --dp), which it has to divide",
            layout.expert,
            layout.stage_gpus()
        ));
    }
    let layers = architecture.layer_count();
    if u64::from(layout.pipeline) > layers {
        return wrong(format!(
            "--pp {}: this model has {layers} layers",
            layout.pipeline
        ));
    }
    if !heads_divide(architecture)(layout.tensor) {
        let fitting = heads_divide(architecture);
        let some: Vec<String> = (2..=64)
            .filter(|ranks| fitting(*ranks))
            .map(|ranks| ranks.to_string())
            .collect();
        return Err(Problem::new(format!(
            "--tp {}: the attention heads do not divide by it",
            layout.tensor
        ))
        .hint(format!("they divide by {}", some.join(", ")))
        .into());
    }
    Ok(())
}

/// Whether attention heads divide over so many ranks.
pub fn heads_divide(architecture: &Architecture) -> impl Fn(u32) -> bool + use<> {
    let heads: Vec<u64> = architecture
        .attention_layers()
        .filter_map(|(_, mixer)| mixer.attention_heads())
        .collect();
    move |ranks| {
        heads
            .iter()
            .all(|heads| heads.is_multiple_of(u64::from(ranks)))
    }
}
