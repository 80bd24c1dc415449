//! `gpuwise profile --model`: the layout that runs beside others on the same GPUs, as `gpuwise train`
//! predicts them.

use crate::{
    App,
    catalogue::Loaded,
    commands::train::{self, Trained},
    error::Problem,
    names, settings,
};
use clap::Parser;
use gpuwise_domain::profile::{
    figures::ProfileFigures,
    parallel::{LayoutComparison, LayoutEstimate},
    timeline::Timeline,
};
use gpuwise_measure::findings::layouts::{BEYOND, LayoutVerdict, degrees, verdict};

/// Layouts that are shown beside the one that runs.
const SHOWN: usize = 3;
/// Tensor-parallel ranks, and pipeline stages, that are tried.
const DEGREES: [u32; 4] = [1, 2, 4, 8];

/// Flags of what is trained; the same as those of `gpuwise train`.
#[derive(Debug, clap::Args)]
#[group(id = "layouts", multiple = true)]
pub(super) struct LayoutFlags {
    /// The model that is trained: is another layout on the same GPUs faster, by what `gpuwise train`
    /// predicts?
    #[arg(long, value_name = "MODEL", help_heading = "Parallelism")]
    model: Option<String>,
    /// Tensor-parallel ranks that it runs on [default: by the trace's process groups]
    #[arg(
        long,
        value_name = "N",
        requires = "model",
        help_heading = "Parallelism"
    )]
    tp: Option<u32>,
    /// Pipeline stages [default: by the trace's process groups]
    #[arg(
        long,
        value_name = "N",
        requires = "model",
        help_heading = "Parallelism"
    )]
    pp: Option<u32>,
    /// Data-parallel ranks
    #[arg(
        long,
        value_name = "N",
        requires = "model",
        help_heading = "Parallelism"
    )]
    dp: Option<u32>,
    /// GPUs in all [default: the trace's world size]
    #[arg(
        long,
        value_name = "N",
        requires = "model",
        help_heading = "Parallelism"
    )]
    ranks: Option<u32>,
    /// Tokens of a sequence [default: that of train]
    #[arg(
        long,
        value_name = "TOKENS",
        requires = "model",
        help_heading = "Parallelism"
    )]
    seq: Option<String>,
    /// Sequences of an optimizer step [default: that of train]
    #[arg(
        long,
        value_name = "N",
        requires = "model",
        help_heading = "Parallelism"
    )]
    global_batch: Option<String>,
    /// Sequences of a micro-batch of the layout that runs [default: searched]
    #[arg(
        long,
        value_name = "N",
        requires = "model",
        help_heading = "Parallelism"
    )]
    micro_batch: Option<String>,
    /// huggingface, pytorch (FSDP) or megatron [default: searched]
    #[arg(
        long,
        value_name = "NAME",
        requires = "model",
        help_heading = "Parallelism"
    )]
    framework: Option<String>,
    /// What data-parallel ranks divide in the layout that runs, as train has it [default: searched]
    #[arg(
        long,
        value_name = "NAME",
        requires = "model",
        help_heading = "Parallelism"
    )]
    sharding: Option<String>,
    /// Activation checkpointing of the layout that runs: none, selective or full [default: searched]
    #[arg(
        long,
        value_name = "NAME",
        requires = "model",
        help_heading = "Parallelism"
    )]
    recompute: Option<String>,
    /// full, lora or another method of train [default: full]
    #[arg(
        long,
        value_name = "NAME",
        requires = "model",
        help_heading = "Parallelism"
    )]
    method: Option<String>,
}

/// What `gpuwise train` takes, as its command line has it.
#[derive(Debug, Parser)]
#[command(name = "gpuwise train", no_binary_name = true)]
struct Asked {
    #[command(flatten)]
    train: settings::Train,
}

/// Compares layouts; `Err` within says by name why there is nothing to compare.
///
/// # Errors
/// When a flag is wrong, or the model cannot be found.
pub(super) fn compared(
    app: &App,
    flags: &LayoutFlags,
    loaded: &Loaded,
    gpu: Option<&str>,
    (timelines, figures): (&[Timeline], &ProfileFigures),
) -> anyhow::Result<Option<Result<LayoutComparison, String>>> {
    let Some(model) = &flags.model else {
        return Ok(None);
    };
    let world = timelines
        .iter()
        .filter_map(|one| one.rank.as_ref()?.world_size)
        .max();
    let files = u32::try_from(timelines.len()).unwrap_or(1);
    let ranks = flags.ranks.or(world).unwrap_or(files);
    if ranks < 2 {
        return Ok(Some(Err("--model: the trace is of one GPU, which has one layout; --ranks says how many there are".into())));
    }
    let by_groups = timelines.first().map_or((None, None), degrees);
    let (tp, pp) = (flags.tp.or(by_groups.0), flags.pp.or(by_groups.1));
    if tp.is_none() && pp.is_none() && flags.dp.is_none() {
        return Ok(Some(Err("--model: which layout runs is not in the trace (its process groups name none): say --tp, --pp or --dp".into())));
    }
    let (tp, pp) = match (tp, pp, flags.dp) {
        (tp, pp, Some(dp)) if tp.is_none() && pp.is_none() && dp < ranks => {
            return Err(Problem::new(format!("--dp {dp}: there are {ranks} GPUs"))
                .hint("say --tp or --pp as well")
                .into());
        }
        (tp, pp, _) => (tp.unwrap_or(1), pp.unwrap_or(1)),
    };
    let Some(gpu) = product(loaded, gpu, figures)? else {
        return Ok(Some(Err(
            "--model: which GPU it ran on is not in the trace: say --gpu".into(),
        )));
    };
    let question = Question {
        app,
        flags,
        model,
        gpu: &gpu,
        ranks,
    };
    let now = match question.ask(tp, pp, true)? {
        Ok(now) => now,
        Err(why) => {
            let said =
                format!("--model: TP {tp} × PP {pp} on {ranks}x{gpu} is not predicted: {why}");
            return Ok(Some(Err(said)));
        }
    };
    let mut others = Vec::new();
    for (tensor, pipeline) in DEGREES.iter().flat_map(|tp| DEGREES.map(|pp| (*tp, pp))) {
        let fits = tensor * pipeline <= ranks && ranks.is_multiple_of(tensor * pipeline);
        if fits
            && (tensor, pipeline) != (tp, pp)
            && let Ok(other) = question.ask(tensor, pipeline, false)?
        {
            others.push(other);
        }
    }
    others.sort_by(|a, b| a.step.value.total_cmp(&b.step.value));
    others.truncate(SHOWN);
    let steps = figures.ranks.iter().filter_map(|rank| rank.steps.as_ref());
    Ok(Some(Ok(LayoutComparison {
        now,
        measured_ns: steps.map(|steps| steps.median_ns).max(),
        others,
        of: format!("{ranks}x{gpu}"),
    })))
}

/// The GPU by its name in the catalogue.
fn product(
    loaded: &Loaded,
    stated: Option<&str>,
    figures: &ProfileFigures,
) -> anyhow::Result<Option<String>> {
    if let Some(name) = stated {
        return Ok(Some(
            names::gpu(&loaded.catalogue, "--gpu", name)?.name.clone(),
        ));
    }
    let mut devices = figures.ranks.iter().flat_map(|rank| &rank.devices);
    let hardware = devices.find_map(|device| device.name.as_deref());
    Ok(hardware
        .and_then(|name| loaded.catalogue.gpu(name))
        .map(|gpu| gpu.name.clone()))
}

/// What all layouts are asked with.
struct Question<'a> {
    app: &'a App,
    flags: &'a LayoutFlags,
    model: &'a str,
    gpu: &'a str,
    ranks: u32,
}

impl Question<'_> {
    /// What `gpuwise train` says of a layout; why there is nothing where it cannot run so.
    fn ask(&self, tp: u32, pp: u32, runs: bool) -> anyhow::Result<Result<LayoutEstimate, String>> {
        let words = self.words(tp, pp, runs);
        let asked = Asked::try_parse_from(&words)
            .map_err(|error| Problem::new("--model: train refuses the question").because(error))?;
        let trained: Trained = train::train(self.app, &asked.train)?;
        let Some(plan) = trained.sizing.ranked.first() else {
            let first = trained.sizing.dropped.first();
            return Ok(Err(first.map_or_else(
                || "nothing fits".into(),
                gpuwise_view::rejected::line,
            )));
        };
        Ok(Ok(LayoutEstimate {
            framework: plan.setup.framework,
            layout: plan.setup.layout,
            step: plan.step.step,
            command: command(&words),
        }))
    }

    fn words(&self, tp: u32, pp: u32, runs: bool) -> Vec<String> {
        let flags = self.flags;
        let mut words = vec![self.model.to_owned()];
        let mut add = |flag: &str, value: Option<String>| {
            if let Some(value) = value {
                words.extend([flag.to_owned(), value]);
            }
        };
        add("--gpus", Some(format!("{}x{}", self.ranks, self.gpu)));
        add("--tp", Some(tp.to_string()));
        add("--pp", Some(pp.to_string()));
        add("--seq", flags.seq.clone());
        add("--global-batch", flags.global_batch.clone());
        add("--framework", flags.framework.clone());
        add("--method", flags.method.clone());
        if runs {
            // Of others the best is searched.
            add("--dp", flags.dp.map(|dp| dp.to_string()));
            add("--micro-batch", flags.micro_batch.clone());
            add("--sharding", flags.sharding.clone());
            add("--recompute", flags.recompute.clone());
        }
        words
    }
}

/// The command as a shell takes it.
fn command(words: &[String]) -> String {
    let quoted = words.iter().map(|word| {
        let plain = word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_./:=".contains(c));
        if plain {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    });
    format!("gpuwise train {}", quoted.collect::<Vec<_>>().join(" "))
}

/// Why nothing is advised, where that is so.
pub(super) fn silent(compared: &LayoutComparison) -> Option<String> {
    match verdict(compared) {
        LayoutVerdict::Faster(_) => None,
        LayoutVerdict::NoneFaster => Some(format!(
            "no other layout on {} is predicted to be faster with its whole range",
            compared.of
        )),
        LayoutVerdict::NotThisJob => Some(format!(
            "the measured step is not what is predicted for the layout that runs (more than {BEYOND} times outside of its range): no other is advised; say --seq, --global-batch, --micro-batch, --framework, --sharding and --recompute as they are, or look at the other findings first"
        )),
    }
}
