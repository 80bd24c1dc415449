//! The text form of Prometheus metrics, and OpenMetrics: one sample a line.

use std::{borrow::Cow, collections::BTreeMap};

/// The page of a large server is some megabytes.
pub const LARGEST_TEXT: usize = 64 << 20;
/// Samples of one page; the limit bounds memory.
pub(super) const MOST_SAMPLES: usize = 1_000_000;
const MOST_LABELS: usize = 64;

/// What is wrong with a page of metrics.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpositionError {
    #[error("line {line}: {problem}")]
    Line {
        /// Line, from 1.
        line: u64,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// It is another kind of document.
    #[error(
        "this is {found}, not metrics in Prometheus' text form; servers keep them under /metrics"
    )]
    OtherKind { found: &'static str },
    #[error("there is no sample in it")]
    Empty,
    #[error("more than {LARGEST_TEXT} bytes or {MOST_SAMPLES} samples")]
    TooLarge,
}

/// What a family of metrics counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It only grows, until the server starts again.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Counts by bucket, with a sum.
    Histogram,
    /// Quantiles, with a sum.
    Summary,
    /// Anything else, or unsaid.
    Untyped,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Sample<'a> {
    /// Its name, suffixes such as `_bucket` included.
    pub name: Cow<'a, str>,
    /// Labels in the order written, each name once.
    pub labels: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// The value; may be NaN or infinite.
    pub value: f64,
    /// When it was taken, in seconds since 1970, where the line says it.
    pub seconds: Option<f64>,
}

impl Sample<'_> {
    /// The same, with texts of its own.
    pub fn into_owned<'b>(self) -> Sample<'b> {
        let owned = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        Sample {
            name: owned(self.name),
            labels: self
                .labels
                .into_iter()
                .map(|(name, text)| (owned(name), owned(text)))
                .collect(),
            value: self.value,
            seconds: self.seconds,
        }
    }

    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_ref())
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Exposition<'a> {
    /// Samples in the order written.
    pub samples: Vec<Sample<'a>>,
    /// Kinds of families, where said.
    pub kinds: BTreeMap<&'a str, Kind>,
}

impl<'a> Exposition<'a> {
    pub fn named<'b>(&'b self, name: &'b str) -> impl Iterator<Item = &'b Sample<'a>> {
        self.samples
            .iter()
            .filter(move |sample| sample.name == name)
    }
}

/// Reads a page of metrics, in Prometheus' text form or as OpenMetrics.
///
/// # Errors
/// When it is something else, is empty, or a line cannot be; the line is named.
pub fn parse(text: &str) -> Result<Exposition<'_>, ExpositionError> {
    if text.len() > LARGEST_TEXT {
        return Err(ExpositionError::TooLarge);
    }
    let text = text.trim_start_matches('\u{feff}');
    if let Some(found) = other_kind(text) {
        return Err(ExpositionError::OtherKind { found });
    }
    // OpenMetrics ends so, and writes times in seconds where Prometheus writes milliseconds.
    let open_metrics = text.trim_end().ends_with("# EOF");
    let mut page = Exposition::default();
    for (number, line) in (1_u64..).zip(text.lines()) {
        let at = |problem: String| ExpositionError::Line {
            line: number,
            problem,
        };
        let line = line.trim();
        if let Some(comment) = line.strip_prefix('#') {
            comment_line(comment, &mut page).map_err(at)?;
        } else if !line.is_empty() {
            if page.samples.len() >= MOST_SAMPLES {
                return Err(ExpositionError::TooLarge);
            }
            let mut sample = sample(line).map_err(at)?;
            if !open_metrics {
                sample.seconds = sample.seconds.map(|milliseconds| milliseconds / 1e3);
            }
            page.samples.push(sample);
        }
    }
    if page.samples.is_empty() {
        return Err(ExpositionError::Empty);
    }
    Ok(page)
}

/// Reads a page of metrics line by line: lines that cannot be are handed back with what is wrong, and
/// the rest counts. Labels that somebody cut out of a pasted line (`...`) are taken as not there; such
/// lines are counted.
///
/// # Errors
/// When it is another kind of document, or too large.
pub fn parse_leniently(text: &str) -> Result<Lenient<'_>, ExpositionError> {
    if text.len() > LARGEST_TEXT {
        return Err(ExpositionError::TooLarge);
    }
    let text = text.trim_start_matches('\u{feff}');
    if let Some(found) = other_kind(text) {
        return Err(ExpositionError::OtherKind { found });
    }
    let open_metrics = text.trim_end().ends_with("# EOF");
    let mut out = Lenient::default();
    for line in text.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix('#') {
            if let Err(problem) = comment_line(comment, &mut out.page) {
                out.problems.push((line, problem));
            }
            continue;
        }
        if line.is_empty() {
            continue;
        }
        if out.page.samples.len() >= MOST_SAMPLES {
            return Err(ExpositionError::TooLarge);
        }
        let mut read = sample(line);
        if read.is_err() && line.contains("...") {
            let whole = line.replace(",...", "").replace("...,", "");
            if let Ok(cut) = sample(&whole) {
                out.shortened += 1;
                read = Ok(cut.into_owned());
            }
        }
        match read {
            Ok(mut sample) => {
                if !open_metrics {
                    sample.seconds = sample.seconds.map(|milliseconds| milliseconds / 1e3);
                }
                out.page.samples.push(sample);
            }
            Err(problem) => out.problems.push((line, problem)),
        }
    }
    Ok(out)
}

/// A page of which some lines could not be read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Lenient<'a> {
    /// What could be read.
    pub page: Exposition<'a>,
    /// Lines that could not, with what is wrong.
    pub problems: Vec<(&'a str, String)>,
    /// Lines in which labels had been cut out.
    pub shortened: u64,
}

fn other_kind(text: &str) -> Option<&'static str> {
    let start = text.trim_start();
    let lower: String = start.chars().take(16).collect::<String>().to_lowercase();
    if lower.starts_with("<!doctype") || lower.starts_with("<html") {
        Some("a page in HTML")
    } else if lower.starts_with('<') {
        Some("XML")
    } else if lower.starts_with(['{', '[']) && !start.lines().next().unwrap_or("").contains("} ") {
        // A name in quotes stands in braces too, but its value follows on the same line.
        Some("JSON")
    } else {
        None
    }
}

/// `# TYPE name kind`; other comments say nothing that is needed.
fn comment_line<'a>(comment: &'a str, page: &mut Exposition<'a>) -> Result<(), String> {
    let mut words = comment.split_whitespace();
    if words.next() != Some("TYPE") {
        return Ok(());
    }
    let (Some(name), Some(kind)) = (words.next(), words.next()) else {
        return Err("`# TYPE` without a name and a kind".into());
    };
    let kind = match kind {
        "counter" => Kind::Counter,
        "gauge" => Kind::Gauge,
        "histogram" | "gaugehistogram" => Kind::Histogram,
        "summary" => Kind::Summary,
        "untyped" | "unknown" | "info" | "stateset" => Kind::Untyped,
        other => {
            return Err(format!(
                "`{name}` is of kind {:?}; expected counter, gauge, histogram, summary or untyped",
                shortened(other)
            ));
        }
    };
    page.kinds.insert(name, kind);
    Ok(())
}

fn sample(line: &str) -> Result<Sample<'_>, String> {
    let end = line.find(|c: char| !is_name(c)).unwrap_or(line.len());
    let (name, mut rest) = line.split_at(end);
    let mut name = Cow::Borrowed(name);
    let mut labels = Vec::new();
    if rest.trim_start().starts_with('{') {
        let (quoted, read, after) = braces(rest.trim_start())?;
        if let Some(quoted) = quoted {
            if !name.is_empty() {
                return Err(format!("it has two names, `{name}` and {quoted:?}"));
            }
            name = quoted;
        }
        labels = read;
        rest = after;
    } else if name.starts_with(|c: char| c.is_ascii_digit()) {
        name = Cow::Borrowed("");
    }
    if name.is_empty() {
        return Err(format!(
            "it begins with {:?}; expected the name of a metric",
            shortened(line)
        ));
    }
    // An exemplar follows a lone `#`.
    let rest = rest.split_once(" # ").map_or(rest, |(before, _)| before);
    let mut words = rest.split_whitespace();
    let word = words
        .next()
        .ok_or_else(|| format!("`{}` has no value", shortened(&name)))?;
    let value = word.parse::<f64>().map_err(|_| {
        format!(
            "`{}` is {:?}; expected a number, NaN, +Inf or -Inf",
            shortened(&name),
            shortened(word)
        )
    })?;
    let seconds = words
        .next()
        .map(|time| {
            time.parse::<f64>()
                .ok()
                .filter(|time| time.is_finite())
                .ok_or_else(|| {
                    format!(
                        "`{}` was taken at {:?}; expected a number",
                        shortened(&name),
                        shortened(time)
                    )
                })
        })
        .transpose()?;
    if let Some(more) = words.next() {
        return Err(format!(
            "{:?} follows the value of `{}`",
            shortened(more),
            shortened(&name)
        ));
    }
    Ok(Sample {
        name,
        labels,
        value,
        seconds,
    })
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

/// Labels, the name where it stands among them in quotes, and what follows the brace.
type Braces<'a> = (
    Option<Cow<'a, str>>,
    Vec<(Cow<'a, str>, Cow<'a, str>)>,
    &'a str,
);

/// `{a="x",b="y"}`; a comma before the brace is allowed.
fn braces(text: &str) -> Result<Braces<'_>, String> {
    let mut rest = text.trim_start_matches('{');
    let mut name = None;
    let mut labels: Vec<(Cow<'_, str>, Cow<'_, str>)> = Vec::new();
    loop {
        rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix('}') {
            return Ok((name, labels, after));
        }
        let key = if rest.starts_with('"') {
            let (key, after) = quoted(rest)?;
            rest = after.trim_start();
            key
        } else {
            let end = rest.find(|c: char| !is_name(c)).unwrap_or(rest.len());
            let (key, after) = rest.split_at(end);
            rest = after.trim_start();
            Cow::Borrowed(key)
        };
        if key.is_empty() {
            return Err(format!(
                "{:?} stands where a label or `}}` should",
                shortened(rest)
            ));
        }
        if let Some(after) = rest.strip_prefix('=') {
            let (value, after) = quoted(after.trim_start())?;
            rest = after.trim_start();
            if labels.iter().any(|(known, _)| *known == key) {
                return Err(format!("label `{}` stands twice", shortened(&key)));
            }
            if labels.len() >= MOST_LABELS {
                return Err(format!("more than {MOST_LABELS} labels"));
            }
            labels.push((key, value));
        } else if name.is_none() && labels.is_empty() {
            name = Some(key);
        } else {
            return Err(format!("label `{}` has no value", shortened(&key)));
        }
        match rest.strip_prefix(',') {
            Some(after) => rest = after,
            None if rest.starts_with('}') => {}
            None => {
                return Err(format!(
                    "{:?} follows a label; expected `,` or `}}`",
                    shortened(rest)
                ));
            }
        }
    }
}

/// A text in quotes with `\\`, `\"` and `\n`, and what follows it.
fn quoted(text: &str) -> Result<(Cow<'_, str>, &str), String> {
    let inner = text
        .strip_prefix('"')
        .ok_or_else(|| format!("{:?} stands where a text in quotes should", shortened(text)))?;
    let mut escaped = false;
    let mut plain = true;
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => {
                escaped = true;
                plain = false;
            }
            b'"' => {
                let (value, after) = inner.split_at(at);
                let value = if plain {
                    Cow::Borrowed(value)
                } else {
                    Cow::Owned(unescaped(value))
                };
                return Ok((value, &after[1..]));
            }
            _ => {}
        }
    }
    Err(format!("the text {:?} does not end", shortened(text)))
}

fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some('n') => out.push('\n'),
                Some(other) => out.push(other),
                None => {}
            },
            other => out.push(other),
        }
    }
    out
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}
