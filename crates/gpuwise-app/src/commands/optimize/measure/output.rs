//! What llama.cpp's tools print, read strictly: what is not there in the form that is known is an error, never a 0.

use super::Figure;
use serde::Deserialize;

/// The end of a run over a text.
const PERPLEXITY: &str = "Final estimate: PPL = ";

/// What `llama-perplexity --kl-divergence` ends with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Beside {
    pub(super) perplexity: Figure,
    /// The original's, of log-probabilities that were kept in 16 bits.
    pub(super) original: Figure,
    /// The logarithm of their ratio.
    pub(super) ratio: Figure,
    pub(super) divergence: Figure,
    /// In percent.
    pub(super) same_first: Figure,
}

/// Pieces of the text, and tokens of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pieces {
    pub(super) count: u64,
    pub(super) tokens: u64,
}

impl Pieces {
    /// Tokens whose probability is taken: those of the second half of each piece that have a next one.
    pub(super) fn scored(self) -> u64 {
        self.count * (self.tokens - 1 - self.tokens / 2)
    }
}

/// A number that is one, with its standard error: `5.9 +/- 0.1`.
fn figure(text: &str, between: &str) -> Option<Figure> {
    let (value, error) = text.split_once(between)?;
    let number = |text: &str| text.trim().parse().ok().filter(|v: &f64| v.is_finite());
    let (value, error) = (number(value)?, number(error)?);
    (error >= 0.0).then_some(Figure { value, error })
}

/// What follows a text that stands in the output once.
fn after<'a>(output: &'a str, text: &str) -> Result<&'a str, String> {
    let mut parts = output.split(text).skip(1);
    match (parts.next(), parts.next()) {
        (Some(rest), None) => Ok(rest.lines().next().unwrap_or_default()),
        (None, _) => Err(format!("it does not say `{}`", text.trim())),
        (Some(_), Some(_)) => Err(format!("it says `{}` twice", text.trim())),
    }
}

/// The perplexity of a run over a text.
pub(super) fn perplexity(output: &str) -> Result<Figure, String> {
    let said = after(output, PERPLEXITY)?;
    figure(said, "+/-")
        .filter(|figure| figure.value >= 1.0)
        .ok_or_else(|| format!("`{PERPLEXITY}{said}` is no perplexity with its uncertainty"))
}

/// Into what the text was cut.
pub(super) fn pieces(output: &str) -> Result<Pieces, String> {
    let mut said = output.split(" over ").skip(1);
    said.find_map(|rest| {
        let (count, rest) = rest.split_once(" chunks, n_ctx=")?;
        let tokens: String = rest.chars().take_while(char::is_ascii_digit).collect();
        let (count, tokens) = (count.parse().ok()?, tokens.parse().ok()?);
        (count > 0 && tokens > 2).then_some(Pieces { count, tokens })
    })
    .ok_or_else(|| "it does not say `over … chunks, n_ctx=…`".into())
}

/// What a run against the original ends with.
pub(super) fn divergence(output: &str) -> Result<Beside, String> {
    let read = |label: &str| {
        let mut lines = output.lines().filter_map(|line| {
            let (said, figures) = line.split_once(':')?;
            said.split_whitespace()
                .eq(label.split(' '))
                .then_some(figures)
        });
        let (Some(said), None) = (lines.next(), lines.next()) else {
            return Err(format!("it does not say `{label}:` once"));
        };
        figure(said.trim().trim_end_matches('%'), "±")
            .ok_or_else(|| format!("`{label}:{said}` is no figure with its uncertainty"))
    };
    let of = Beside {
        perplexity: read("Mean PPL(Q)")?,
        original: read("Mean PPL(base)")?,
        ratio: read("Mean ln(PPL(Q)/PPL(base))")?,
        divergence: read("Mean KLD")?,
        same_first: read("Same top p")?,
    };
    let possible = of.perplexity.value >= 1.0
        && of.original.value >= 1.0
        // What is rounded may end below nothing.
        && of.divergence.value > -1e-3
        && (0.0..=100.0).contains(&of.same_first.value);
    possible
        .then_some(of)
        .ok_or_else(|| format!("its figures cannot be: {of:?}"))
}

/// A row of `llama-bench -o json`.
#[derive(Debug, Clone, Deserialize)]
struct Row {
    build_commit: String,
    build_number: u64,
    cpu_info: String,
    gpu_info: String,
    backends: String,
    n_prompt: u64,
    n_gen: u64,
    avg_ts: f64,
    stddev_ts: f64,
    samples_ts: Vec<f64>,
}

/// What `llama-bench` says of a prompt and of an answer, each alone.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bench {
    pub(super) prompt: Figure,
    pub(super) answer: Figure,
    /// llama.cpp's release, and what it ran on.
    pub(super) release: String,
    pub(super) device: String,
}

/// Reads `llama-bench -o json` of a prompt and of an answer of so many tokens.
pub(super) fn bench(output: &str, prompt: u64, answer: u64) -> Result<Bench, String> {
    let rows: Vec<Row> = serde_json::from_str(output)
        .map_err(|error| format!("its JSON is not as known: {error}"))?;
    let of = |wanted: (u64, u64)| {
        let mut these = rows
            .iter()
            .filter(|row| (row.n_prompt, row.n_gen) == wanted);
        let (Some(row), None) = (these.next(), these.next()) else {
            let (prompt, answer) = wanted;
            return Err(format!(
                "it has no single row of {prompt} tokens in and {answer} out"
            ));
        };
        // The standard error of a mean of so many runs.
        let error = row.stddev_ts / (row.samples_ts.len().max(1) as f64).sqrt();
        let speed = Figure {
            value: row.avg_ts,
            error,
        };
        let known = speed.value.is_finite() && speed.value > 0.0 && error.is_finite();
        known
            .then_some((speed, row))
            .ok_or_else(|| format!("{} tokens a second cannot be", row.avg_ts))
    };
    let ((prompt, row), (answer, _)) = (of((prompt, 0))?, of((0, answer))?);
    let device = if row.gpu_info.is_empty() {
        &row.cpu_info
    } else {
        &row.gpu_info
    };
    Ok(Bench {
        prompt,
        answer,
        release: format!("llama.cpp b{} ({})", row.build_number, row.build_commit),
        device: format!("{device}, {}", row.backends),
    })
}
