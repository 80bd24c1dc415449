//! From words to settings, by the flags of an engine's release.

use super::LaunchError;
use gpuwise_domain::{
    engine::Release,
    facts::{EngineFacts, FlagFact, FlagKind, NotUnderstood},
};

/// What the words of a command say.
#[derive(Debug, Default)]
pub(super) struct Flags {
    pub(super) set: Vec<Setting>,
    /// Words that belong to no flag.
    pub(super) positional: Vec<String>,
    pub(super) unknown: Vec<NotUnderstood>,
}

#[derive(Debug, Clone)]
pub(super) struct Setting {
    /// The setting; with a dot, a key within its JSON object.
    pub(super) name: String,
    pub(super) value: String,
    pub(super) flag: String,
}

/// Flags that take all words up to the next flag.
const MANY: [&str; 3] = [
    "lora_modules",
    "cudagraph_capture_sizes",
    "served_model_name",
];

pub(super) fn read(
    words: &[String],
    facts: &EngineFacts,
    release: Option<Release>,
) -> Result<Flags, LaunchError> {
    let mut flags = Flags::default();
    let mut rest = words;
    while let Some((word, after)) = rest.split_first() {
        rest = after;
        if !is_flag(word) {
            if !is_redirection(word) {
                flags.positional.push(word.clone());
            } else if word.ends_with(['>', '<']) {
                rest = rest.get(1..).unwrap_or(&[]);
            }
            continue;
        }
        let (written, inline) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word.as_str(), None),
        };
        let Some(found) = find(written, facts, release) else {
            flags.unknown.push(NotUnderstood::Flag {
                flag: written.into(),
                engine: engine_at(facts, release),
                elsewhere: facts.flag_elsewhere(written, release),
                like: facts.flags_like(written, release),
            });
            // Most flags take a value.
            if inline.is_none() && rest.first().is_some_and(|next| !is_flag(next)) {
                rest = rest.get(1..).unwrap_or(&[]);
            }
            continue;
        };
        let (value, taken) = value_of(&found, written, inline, rest)?;
        rest = rest.get(taken..).unwrap_or(&[]);
        if let FlagKind::Choice(choices) = &found.flag.kind
            && !choices.contains(&value)
        {
            flags.unknown.push(NotUnderstood::Choice {
                flag: written.into(),
                value: value.clone(),
                engine: engine_at(facts, release),
                choices: choices.clone(),
            });
        }
        flags.set.push(Setting {
            name: found.setting(),
            value,
            flag: written.into(),
        });
    }
    Ok(flags)
}

/// `vLLM 0.20.0`.
fn engine_at(facts: &EngineFacts, release: Option<Release>) -> String {
    format!("{} {}", facts.title, facts.spelled(facts.resolve(release)))
}

/// Whether a word is a flag and not a negative number or a lone dash.
fn is_flag(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-') && word.parse::<f64>().is_err()
}

/// Whether a word sends output to a file, which its own end or the next word names.
fn is_redirection(word: &str) -> bool {
    word.starts_with(['>', '<']) || word.ends_with('>')
}

struct Found<'a> {
    flag: &'a FlagFact,
    /// It is `--no-…`.
    negated: bool,
    /// The key within its JSON object, for `--speculative-config.method`.
    key: Option<&'a str>,
}

impl Found<'_> {
    fn setting(&self) -> String {
        match self.key {
            Some(key) => format!("{}.{key}", self.flag.setting),
            None => self.flag.setting.clone(),
        }
    }
}

fn find<'a>(
    written: &'a str,
    facts: &'a EngineFacts,
    release: Option<Release>,
) -> Option<Found<'a>> {
    if let Some(flag) = facts.flag(written, release) {
        return Some(Found {
            flag,
            negated: false,
            key: None,
        });
    }
    if let Some(positive) = written
        .strip_prefix("--no-")
        .or(written.strip_prefix("--no_"))
    {
        let flag = facts.flag(&format!("--{positive}"), release)?;
        return (flag.kind == FlagKind::Switch).then_some(Found {
            flag,
            negated: true,
            key: None,
        });
    }
    let (object, key) = written.split_once('.')?;
    let flag = facts.flag(object, release)?;
    (flag.kind == FlagKind::Json).then_some(Found {
        flag,
        negated: false,
        key: Some(key),
    })
}

/// The value of a flag, and how many of the following words it takes.
fn value_of(
    found: &Found<'_>,
    written: &str,
    inline: Option<&str>,
    rest: &[String],
) -> Result<(String, usize), LaunchError> {
    if found.flag.kind == FlagKind::Switch && found.key.is_none() {
        let said = inline.or(rest.first().map(String::as_str));
        let (on, taken) = match said.map(str::to_ascii_lowercase).as_deref() {
            Some("true") => (true, usize::from(inline.is_none())),
            Some("false") => (false, usize::from(inline.is_none())),
            _ => (true, 0),
        };
        return Ok(((on != found.negated).to_string(), taken));
    }
    if let Some(value) = inline {
        return Ok((value.into(), 0));
    }
    let values: Vec<&str> = rest
        .iter()
        .map(String::as_str)
        .take_while(|word| !is_flag(word))
        .collect();
    let Some(first) = values.first() else {
        return Err(LaunchError::MissingValue {
            flag: written.into(),
            expected: expected(&found.flag.kind),
        });
    };
    if MANY.contains(&found.flag.setting.as_str()) {
        return Ok((values.join(" "), values.len()));
    }
    Ok(((*first).into(), 1))
}

fn expected(kind: &FlagKind) -> &'static str {
    match kind {
        FlagKind::Switch => "nothing",
        FlagKind::Integer => "a whole number",
        FlagKind::Real => "a number",
        FlagKind::Text | FlagKind::Choice(_) => "a word",
        FlagKind::Json => "a JSON object",
    }
}
