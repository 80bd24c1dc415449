//! `gpuwise plan` for diffusion, vision and embedding models: `--images`, `--audio`, `--texts` and the like.

use crate::schemas::AnswerName;
use crate::{
    catalogue::{self, Loaded},
    commands::{App, Context, Exit},
    error::Problem,
    host,
    made::made,
    media, names, settings, workload,
    write::Pending,
};
use anyhow::Context as _;
use gpuwise_domain::{
    balance::Balance,
    media::{MediaSizing, MediaUnit},
    network::{InputSize, Network},
};
use gpuwise_read::workload as quantities;
use gpuwise_size::media::{
    plan::{self as search, Request},
    walk::walk,
};
use gpuwise_view::{
    answer, balance as around, explain, media as view,
    record::{self},
};
use std::path::Path;

/// A plan for a diffusion, vision or embedding model, and what the picked deployment asks of its host.
#[derive(Debug)]
#[must_use]
pub struct MediaPlanned {
    /// The deployments, ranked, and what was dropped.
    pub sizing: MediaSizing,
    /// What the picked deployment asks of its host.
    pub host: Option<Balance>,
    loaded: Loaded,
}

gpuwise_view::record!(MediaPlanned, "MediaPlanAnswer", |of| {
    of.inline(|m| &m.sizing);
    of.maybe("host", |m| m.host.as_ref());
});

/// Plans for a diffusion, vision or embedding model; `None` where the flags ask for a language model.
pub(super) fn run(context: &Context, flags: &settings::Plan) -> anyhow::Result<Option<Exit>> {
    let page = flags.result.html.as_deref();
    let Some(planned) = plan(&context.app, flags)? else {
        return Ok(None);
    };
    if let Some(file) = page.map(Pending::new).transpose()? {
        file.finish(&view::page(&planned.sizing, &made()))?;
    }
    show(&context.answering(AnswerName::MediaPlan), flags, &planned)?;
    Ok(Some(if planned.sizing.ranked.is_empty() {
        Exit::No
    } else {
        Exit::Yes
    }))
}

/// Plans the serving of a diffusion, vision or embedding model; `None` where the settings ask for a
/// language model.
///
/// # Errors
/// When flags or the model are wrong for each other, or the network cannot take such an input.
pub fn plan(app: &App, flags: &settings::Plan) -> anyhow::Result<Option<MediaPlanned>> {
    let name = flags.model.model.as_deref();
    let Some((unit, rate)) = asked(&flags.media)? else {
        return Ok(None);
    };
    let layout = &flags.layout;
    if [layout.tp, layout.pp, layout.dp, layout.ep]
        .iter()
        .any(Option::is_some)
    {
        return Err(Problem::new(format!(
            "--tp, --pp, --dp and --ep spread language models; with {} they do nothing",
            unit.flag()
        ))
        .hint("leave them out: how many GPUs share one input is chosen by itself")
        .into());
    }
    let Some(name) = name else {
        return Err(Problem::new(format!("{} of which network?", unit.flag()))
            .hint("name one of `gpuwise models`, or a directory with its configuration")
            .into());
    };
    let loaded = catalogue::load(&app.overrides.with_prices(&flags.limits.market.prices))?;
    let network = resolve(name, unit, &loaded)?;
    fits(&network, unit)?;
    let input = input(flags)?;
    let walked = walk(&network, &input).map_err(|error| {
        Problem::new(format!("{} cannot take this input", network.name)).because(error)
    })?;
    let asked = workload::read(flags, &loaded.catalogue)?;
    let size = input.or(network.usual);
    let seconds = size.seconds.unwrap_or(media::WINDOW);
    let request = Request {
        name: network.name.clone(),
        task: network.task.clone(),
        walk: &walked,
        input: media::words(&size, unit),
        unit,
        rate,
        inputs: if unit == MediaUnit::AudioHours {
            3600.0 / seconds
        } else {
            1.0
        },
        latency: flags
            .media
            .latency
            .as_deref()
            .map(quantities::target)
            .transpose()
            .context("--latency")?,
        limits: &asked.workload.limits,
        terms: flags.limits.market.terms.into(),
        objective: flags.result.objective.into(),
        formats: flags
            .engine
            .precision
            .iter()
            .map(|name| media::format(name))
            .collect::<anyhow::Result<_>>()?,
        batch: flags.media.input.batch,
        slices: !flags.result.no_slices,
        top: usize::from(flags.result.top),
        catalogue: &loaded.catalogue,
        constants: &loaded.media,
    };
    refuse_unused(flags)?;
    let sizing = search::plan(&request);
    let at = usize::from(flags.result.pick).saturating_sub(1);
    let host = sizing
        .ranked
        .get(at)
        .map(|picked| host::of_media(&sizing, picked, &size, request.inputs, &loaded))
        .transpose()?;
    Ok(Some(MediaPlanned {
        sizing,
        host,
        loaded,
    }))
}

/// The unit that is asked for, and how many a second.
fn asked(flags: &settings::MediaFlags) -> anyhow::Result<Option<(MediaUnit, f64)>> {
    let rates = [
        (MediaUnit::Images, &flags.images),
        (MediaUnit::Texts, &flags.texts),
        (MediaUnit::Pairs, &flags.pairs),
        (MediaUnit::Samples, &flags.samples),
        (MediaUnit::Videos, &flags.videos),
    ];
    for (unit, text) in rates {
        if let Some(text) = text {
            let rate = quantities::rate(text).context(unit.flag())?;
            return Ok(Some((unit, rate.get())));
        }
    }
    let Some(text) = &flags.audio else {
        return Ok(None);
    };
    Ok(Some((MediaUnit::AudioHours, audio(text)?)))
}

/// Hours of audio a second, from `40h/h`, `30min/min` or `12s/s`.
fn audio(text: &str) -> anyhow::Result<f64> {
    let seconds = |unit: &str| match unit.trim() {
        "h" => Some(3600.0),
        "min" | "m" => Some(60.0),
        "s" => Some(1.0),
        _ => None,
    };
    let parsed = text.trim().split_once('/').and_then(|(amount, per)| {
        let end = amount.find(|c: char| c.is_alphabetic())?;
        let (number, unit) = amount.split_at(end);
        let number: f64 = number.trim().parse().ok()?;
        let rate = number * seconds(unit)? / seconds(per)? / 3600.0;
        (rate.is_finite() && rate > 0.0 && rate <= 1e6).then_some(rate)
    });
    parsed.ok_or_else(|| {
        Problem::new(format!(
            "--audio {text}: expected audio time per time (RTFx)"
        ))
        .hint("such as 40h/h: forty hours of audio come in every hour")
        .into()
    })
}

/// Whether a network is counted in this unit; networks of one's own have no stated task.
fn fits(network: &Network, unit: MediaUnit) -> anyhow::Result<()> {
    let own = media::unit_of(network);
    let read = own == MediaUnit::Pairs || network.task == "question to span";
    let also = unit == MediaUnit::Samples || unit == MediaUnit::Texts && read;
    if network.task.is_empty() || own == unit || also {
        return Ok(());
    }
    Err(Problem::new(format!(
        "{}: {} goes from {}",
        unit.flag(),
        network.name,
        network.task
    ))
    .hint(format!(
        "it is counted in {}: {}",
        own.plural(),
        media::usage(own)
    ))
    .into())
}

/// The network of a name, a directory or a file.
fn resolve(name: &str, unit: MediaUnit, loaded: &Loaded) -> anyhow::Result<Network> {
    let path = Path::new(name);
    if path.exists() {
        return media::read_path(name, path);
    }
    loaded.networks.resolve(name, &loaded.models).map_err(|error| {
        if loaded.models.entry(name).is_some() {
            return Problem::new(format!(
                "{} {name}: it is a language model, which is served token by token",
                unit.flag()
            ))
            .hint(format!("gpuwise plan {name} --rate 8/s --isl 2000 --osl 300"))
            .into();
        }
        Problem::new(error.to_string())
            .hint("`gpuwise models` lists those that are; a directory with its config.json or model_index.json suffices too")
            .into()
    })
}

fn input(flags: &settings::Plan) -> anyhow::Result<InputSize> {
    let asked = &flags.media;
    let size = media::input(&asked.input)?;
    let longest = media::tokens("--longest", asked.longest.as_deref())?;
    if let (Some(length), Some(longest)) = (size.text_tokens, longest)
        && longest < length
    {
        return Err(Problem::new(format!(
            "--longest {longest}: the longest text is shorter than the mean, {length} tokens"
        ))
        .into());
    }
    media::counted("--steps", asked.steps)?;
    Ok(InputSize {
        steps: asked.steps,
        guided: asked.guidance.as_deref().map(|word| word == "on"),
        // Unsorted batches of any size hold a long text: all are padded to the longest.
        text_tokens: longest.or(size.text_tokens),
        written_tokens: media::tokens("--osl", flags.traffic.osl.as_deref())?,
        ..size
    })
}

/// Flags of `plan` that would change nothing here.
fn refuse_unused(flags: &settings::Plan) -> anyhow::Result<()> {
    let result = &flags.result;
    let unused = [
        ("--emit", result.emit.is_some()),
        ("--save", result.save.is_some()),
        ("--simulate", result.simulate),
        ("--disaggregated", result.disaggregated),
        ("--rule", result.rule.is_some()),
        ("--engine", flags.engine.engine.is_some()),
        ("--kv", !flags.engine.kv.is_empty()),
        ("--fabric", flags.limits.market.fabric.is_some()),
    ];
    media::refuse_given(&unused)
}

fn show(context: &Context, flags: &settings::Plan, planned: &MediaPlanned) -> anyhow::Result<()> {
    let MediaPlanned {
        sizing,
        host,
        loaded,
    } = planned;
    let style = context.form.style;
    match context.form.format {
        settings::Format::Json => return context.json(&record::json(planned)),
        settings::Format::Csv => return context.data(&view::csv(sizing)),
        settings::Format::Md => {
            let mut text = view::markdown(sizing);
            if let Some(host) = host {
                text += "\n## What the host must have\n\n";
                text += &around::table(host).to_markdown();
            }
            return context.data(&text);
        }
        settings::Format::Table => {}
    }
    let mut text = view::text(sizing, style);
    if let Some(host) = host {
        text += &around::required(host, style);
    }
    for name in &flags.result.why_not {
        let gpu = names::device(&loaded.catalogue, "--why-not", name)?.gpu;
        text.push('\n');
        text += &view::why_not(sizing, &gpu.name, style);
    }
    if flags.result.explain {
        let at = usize::from(flags.result.pick).saturating_sub(1);
        if let Some(picked) = sizing.ranked.get(at) {
            text.push('\n');
            text += &explain::text(&picked.derivations, style);
        }
        text += &answer::explained(&sizing.notes, style);
    }
    context.data(&text)
}
