//! `gpuwise plan` for diffusion, vision and embedding models: `--images`, `--audio`, `--texts` and the like.

use crate::schemas::AnswerName;
use crate::{
    catalogue::{self, Loaded},
    commands::{App, Context, Exit},
    error::Problem,
    host,
    made::made,
    names, settings, workload,
    write::Pending,
};
use anyhow::Context as _;
use gpuwise_domain::{
    balance::Balance,
    media::{MediaSizing, MediaUnit},
    network::{InputSize, Network},
    precision::Compute,
};
use gpuwise_read::{network, workload as quantities};
use gpuwise_size::media::{
    plan::{self as search, Request},
    walk::walk,
};
use gpuwise_view::{
    answer, balance as around, explain, media as view,
    record::{self},
};
use std::{fs, path::Path};

/// Seconds of audio that speech networks take at a time.
const WINDOW: f64 = 30.0;

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
        return match name {
            Some(name) => refused(app, flags, name).map(|()| None),
            None => Ok(None),
        };
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
    let input = input(&flags.media, flags.traffic.osl.as_deref())?;
    let walked = walk(&network, &input).map_err(|error| {
        Problem::new(format!("{} cannot take this input", network.name)).because(error)
    })?;
    let asked = workload::read(flags, &loaded.catalogue)?;
    let size = input.or(network.usual);
    let seconds = size.seconds.unwrap_or(WINDOW);
    let request = Request {
        name: network.name.clone(),
        task: network.task.clone(),
        walk: &walked,
        input: words(&size, unit),
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
        formats: formats(&flags.engine.precision)?,
        batch: flags.media.batch,
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

/// A network that was named without saying how much of it is asked.
fn refused(app: &App, flags: &settings::Plan, name: &str) -> anyhow::Result<()> {
    if flags.traffic.from.is_some() || Path::new(name).exists() {
        return Ok(());
    }
    let loaded = catalogue::load(&app.overrides)?;
    if loaded.models.entry(name).is_some() {
        return Ok(());
    }
    let Some(entry) = loaded.networks.entry(name) else {
        return Ok(());
    };
    let unit = unit_of(&entry.task);
    Err(Problem::new(format!(
        "{} goes from {}: it is not served token by token",
        entry.id, entry.task
    ))
    .hint(format!("say how much of it: {}", usage(unit)))
    .into())
}

fn unit_of(task: &str) -> MediaUnit {
    match task {
        "text to image" => MediaUnit::Images,
        "text to video" => MediaUnit::Videos,
        "speech to text" => MediaUnit::AudioHours,
        "text to vector" | "text to states" => MediaUnit::Texts,
        "pair to score" => MediaUnit::Pairs,
        _ => MediaUnit::Samples,
    }
}

const fn usage(unit: MediaUnit) -> &'static str {
    match unit {
        MediaUnit::Images => "--images 2/s --size 1024 --steps 28 --latency p95:8s",
        MediaUnit::Videos => "--videos 30/h --size 832x480 --frames 81",
        MediaUnit::AudioHours => "--audio 40h/h",
        MediaUnit::Texts => "--texts 300/s --length 256",
        MediaUnit::Pairs => "--pairs 50/s --length 512",
        MediaUnit::Samples => "--samples 1000/s",
    }
}

/// Whether a network is counted in this unit; networks of one's own have no stated task.
fn fits(network: &Network, unit: MediaUnit) -> anyhow::Result<()> {
    let own = unit_of(&network.task);
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
    .hint(format!("it is counted in {}: {}", own.plural(), usage(own)))
    .into())
}

/// The network of a name, a directory or a file.
fn resolve(name: &str, unit: MediaUnit, loaded: &Loaded) -> anyhow::Result<Network> {
    let path = Path::new(name);
    if path.exists() {
        return read_path(name, path);
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

fn read_path(name: &str, path: &Path) -> anyhow::Result<Network> {
    let text = |file: &Path| {
        fs::read_to_string(file)
            .map_err(|error| Problem::new(format!("cannot read {}", file.display())).because(error))
    };
    let index = path.join("model_index.json");
    if index.is_file() {
        let part = |part: &str| fs::read_to_string(path.join(part).join("config.json")).ok();
        return network::read_pipeline(name, &text(&index)?, &part)
            .map_err(|error| Problem::new(name.to_string()).because(error).into());
    }
    let file = if path.is_dir() {
        path.join("config.json")
    } else {
        path.to_path_buf()
    };
    network::read_network(name, &text(&file)?).map_err(|error| {
        Problem::new(file.display().to_string())
            .because(error)
            .into()
    })
}

fn input(flags: &settings::MediaFlags, written: Option<&str>) -> anyhow::Result<InputSize> {
    let tokens = |flag: &str, text: Option<&str>| {
        text.map(|text| quantities::tokens(text).context(flag.to_string()))
            .transpose()
            .map(|tokens| tokens.map(|tokens| tokens.0))
    };
    let size = flags.size.as_deref().map(pixels).transpose()?;
    let length = tokens("--length", flags.length.as_deref())?;
    let longest = tokens("--longest", flags.longest.as_deref())?;
    if let (Some(length), Some(longest)) = (length, longest)
        && longest < length
    {
        return Err(Problem::new(format!(
            "--longest {longest}: the longest text is shorter than the mean, {length} tokens"
        ))
        .into());
    }
    for (flag, count) in [("--steps", flags.steps), ("--frames", flags.frames)] {
        if count.is_some_and(|count| count == 0 || count > 100_000) {
            return Err(Problem::new(format!("{flag}: expected 1 to 100000")).into());
        }
    }
    Ok(InputSize {
        width: size.map(|(width, _)| width),
        height: size.map(|(_, height)| height),
        frames: flags.frames,
        steps: flags.steps,
        guided: flags.guidance.as_deref().map(|word| word == "on"),
        // Unsorted batches of any size hold a long text: all are padded to the longest.
        text_tokens: longest.or(length),
        written_tokens: tokens("--osl", written)?,
        ..InputSize::default()
    })
}

/// `1024` or `1280x720`.
fn pixels(text: &str) -> anyhow::Result<(u64, u64)> {
    let side = |side: &str| {
        let pixels: u64 = side.trim().parse().ok()?;
        (1..=65_536).contains(&pixels).then_some(pixels)
    };
    let both = match text.split_once(['x', '×', 'X']) {
        Some((width, height)) => side(width).zip(side(height)),
        None => side(text).map(|side| (side, side)),
    };
    both.ok_or_else(|| {
        Problem::new(format!(
            "--size {text}: expected pixels such as 1024 or 1280x720"
        ))
        .into()
    })
}

fn words(size: &InputSize, unit: MediaUnit) -> String {
    let mut parts = Vec::new();
    let pictured = !matches!(
        unit,
        MediaUnit::Texts | MediaUnit::Pairs | MediaUnit::AudioHours
    );
    if let (true, Some(width), Some(height)) = (pictured, size.width, size.height) {
        parts.push(format!("{width} × {height}"));
    }
    let counts = [
        (size.frames, "frames"),
        (size.steps, "steps"),
        (size.text_tokens, "tokens of text"),
        (size.written_tokens, "tokens written"),
    ];
    for (count, what) in counts {
        parts.extend(count.map(|count| format!("{count} {what}")));
    }
    parts.extend(size.windows.map(|windows| format!("{windows} windows")));
    if unit == MediaUnit::AudioHours {
        parts.insert(
            0,
            format!("a window of {} s", size.seconds.unwrap_or(WINDOW)),
        );
    }
    if parts.is_empty() {
        parts.push("as configured".into());
    }
    parts.join(", ")
}

fn formats(names: &[String]) -> anyhow::Result<Vec<Compute>> {
    let of = |name: &String| {
        match name.trim().to_ascii_lowercase().as_str() {
        "fp32" => Ok(Compute::Full),
        "bf16" | "fp16" => Ok(Compute::Half),
        "fp8" => Ok(Compute::Fp8),
        "int8" => Ok(Compute::Int8),
        "fp4" | "nvfp4" => Ok(Compute::Fp4),
        _ => Err(Problem::new(format!(
            "--precision {name}: diffusion, vision and embedding models multiply in fp32, fp16, fp8, int8 or fp4"
        ))
        .into()),
    }
    };
    names.iter().map(of).collect()
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
    match unused.iter().find(|(_, given)| *given) {
        Some((flag, _)) => Err(Problem::new(format!(
            "{flag} is for language models; a diffusion, vision or embedding model has none of it"
        ))
        .into()),
        None => Ok(()),
    }
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
