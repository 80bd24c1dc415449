//! `gpuwise optimize --measure`: what a smaller model loses, measured on a text: of GGUF files by llama.cpp on this
//! machine, of a served model by the log-probabilities that its server tells of prompts.

mod llamacpp;
mod output;
mod save;
mod served;
mod show;
mod tools;

use super::super::{Context, Exit};
use crate::{
    error::Problem,
    fetch::is_url,
    progress,
    settings::{MeasureFlags, Optimize},
};
use std::{fs, path::PathBuf};

/// Paragraphs of this program's own pages as they were in November 2026: it does not change with them, so that figures
/// of two releases are of the same text.
const SAMPLE: &str = include_str!("sample.txt");
const SAMPLE_NAME: &str = "gpuwise's pages, 2026-11";

/// A figure with its standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Figure {
    value: f64,
    error: f64,
}

/// What was measured of one model.
#[derive(Debug, Clone)]
struct Side {
    name: String,
    /// Bytes of its tensors, where its file was read.
    bytes: Option<u64>,
    perplexity: Figure,
    speed: Option<Speed>,
}

/// Tokens a second, one request at a time.
#[derive(Debug, Clone, Copy)]
struct Speed {
    prompt: Figure,
    answer: Figure,
}

/// How far a model is from the original.
#[derive(Debug, Clone)]
struct Distance {
    original: Side,
    /// Of perplexity, in percent of the original's; positive is worse.
    loss: Figure,
    /// Mean divergence of the next token's distribution from the original's, in nats.
    divergence: Option<Figure>,
    /// How often the likeliest next token is the same, in percent.
    same_first: Figure,
}

/// What was measured, on what, by what.
#[derive(Debug, Clone)]
struct Measured {
    model: Side,
    distance: Option<Distance>,
    /// What the text is called.
    text: String,
    /// Tokens whose probability was taken.
    scored: u64,
    /// How many pieces, and how long they are, in words.
    pieces: String,
    /// The tool, with its release.
    by: String,
    /// The format of the weights as catalogues of quality call it, where it is known.
    scheme: Option<String>,
    /// Parameters in 10⁹, where the file was read.
    parameters_b: Option<f64>,
    notes: Vec<String>,
}

/// The text that is measured on.
#[derive(Debug)]
struct Text {
    name: String,
    /// The user's file; `None`: the one that gpuwise carries.
    path: Option<PathBuf>,
    content: String,
}

impl Text {
    fn of(flags: &MeasureFlags) -> anyhow::Result<Self> {
        let Some(path) = &flags.text else {
            return Ok(Self {
                name: SAMPLE_NAME.into(),
                path: None,
                content: SAMPLE.into(),
            });
        };
        let shown = path.display().to_string();
        let content = fs::read_to_string(path)
            .map_err(|error| Problem::new(format!("--text: cannot read {shown}")).because(error))?;
        if content.trim().is_empty() {
            return Err(Problem::new(format!("--text: {shown} is empty"))
                .hint("name a text of some thousand words, of the kind that the model is to answer")
                .into());
        }
        let name = path
            .file_name()
            .map_or(shown, |name| name.to_string_lossy().into_owned());
        Ok(Self {
            name,
            path: Some(path.clone()),
            content,
        })
    }
}

/// Without `--measure` no server is asked, so that no key is wanted.
pub(super) fn asks_nobody(flags: &MeasureFlags) -> anyhow::Result<()> {
    let access = &flags.access;
    let flag = [
        ("--key-env", access.key_env.is_some()),
        ("--key-file", access.key_file.is_some()),
        ("--ca-file", access.ca_file.is_some()),
    ];
    match flag.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((flag, _)) => Err(Problem::new(format!("{flag} without --measure"))
            .hint("only a served model that is measured is asked for anything: leave it out")
            .into()),
    }
}

pub(super) fn run(context: &Context, flags: &Optimize) -> anyhow::Result<Exit> {
    let model = flags.model.display().to_string();
    let asked = &flags.measured;
    let served = is_url(&model);
    if let Some(original) = &asked.against
        && is_url(original) != served
    {
        return Err(Problem::new(format!("{model} --against {original}: a file and a server"))
            .hint("both must be GGUF files, or both addresses of servers: numbers of two engines differ by more than a form loses")
            .into());
    }
    if let Some(form) = flags.make.to
        && !(served && asked.save)
    {
        return Err(Problem::new(format!("--to {} with --measure", form.name()))
            .hint(
                "it names the form of a served model for --save; a file says its own: leave it out",
            )
            .into());
    }
    let text = Text::of(asked)?;
    let kept = asked
        .save
        .then(|| save::place(context, flags))
        .transpose()?;
    let mut measured = if served {
        served::measure(context, &model, asked, &text)?
    } else {
        llamacpp::measure(&model, asked, &text)?
    };
    if let Some(form) = flags.make.to {
        measured.scheme = Some(form.planned().into());
    }
    progress::doing("");
    let saved = kept
        .map(|place| save::row(place, &measured, asked.of.as_deref()))
        .transpose()?;
    context.table(&show::table(&measured, saved.as_ref()))?;
    Ok(Exit::Yes)
}

/// How much worse a perplexity is than the original's, in percent; `ratio_error` is the standard error of the logarithm
/// of their ratio, token by token.
fn loss(after: f64, before: f64, ratio_error: f64) -> Figure {
    let ratio = after / before;
    Figure {
        value: (ratio - 1.0) * 100.0,
        error: ratio * ratio_error * 100.0,
    }
}
