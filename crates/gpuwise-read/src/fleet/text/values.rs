//! Values as people write them.

use super::Found;
use crate::telemetry::read_duration;
use gpuwise_domain::placement::{Health, Level};
use gpuwise_units::{Bytes, Money, Nanoseconds, Seconds};
use serde::Deserialize;

#[derive(Debug, Clone, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a value in quotes or a table as `gpuwise example fleet.toml` and `gpuwise example jobs.toml` show it, or a list of them"
)]
pub(in crate::fleet) enum Many<T> {
    One(T),
    Several(Vec<T>),
}

impl<T> Many<T> {
    pub(in crate::fleet) fn all(&self) -> &[T] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Several(many) => many,
        }
    }
}

/// Whether a feature of nodes can be of this name: Slurm's signs between features are not in it.
pub(in crate::fleet) fn is_feature(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_-.:=/+".contains(&b);
    !text.is_empty() && text.len() <= 100 && text.bytes().all(plain)
}

/// Features of nodes, sorted and each once.
pub(in crate::fleet) fn features_of(said: &[String]) -> Found<Vec<String>> {
    let mut all: Vec<String> = said.iter().map(|one| one.trim().to_owned()).collect();
    if let Some(odd) = all.iter().find(|one| !is_feature(one)) {
        return Err(format!(
            "features has {odd:?}; expected one word for each, such as [\"ib\", \"nvme\"], all of which a node has"
        ));
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// GPUs of a node, pool or worker at most: what is beyond it was mistyped.
const MOST_GPUS: u32 = 100_000;

/// `8xH100`: how many of what; a bare name is one, a bare number has no name.
pub(in crate::fleet) fn counted_gpu(field: &str, text: &str) -> Found<(u32, String)> {
    let wrong =
        || format!("{field} is {text:?}; expected how many of which GPU, such as \"8xH100\"");
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (count, name) = text.split_at(digits);
    let (count, name) = match name.trim_start().strip_prefix(['x', '×', '*']) {
        Some(name) if digits > 0 => (count, name),
        _ => ("1", text),
    };
    let name = name.trim();
    let count: u32 = count.parse().map_err(|_| wrong())?;
    if count == 0 {
        return Err(format!(
            "{field} is {text:?}; 0 GPUs are none: leave it out"
        ));
    }
    if name.is_empty() || count > MOST_GPUS {
        return Err(wrong());
    }
    Ok((count, name.to_owned()))
}

/// Cores as thousandths of one.
pub(in crate::fleet) fn cpu_milli(cores: f64) -> Found<u64> {
    if cores.is_finite() && (0.0..=1e6).contains(&cores) {
        return Ok((cores * 1000.0 + 0.5) as u64);
    }
    Err(format!("cpu is {cores}; expected cores from 0 to 1000000"))
}

/// A size in whole MiB, rounded down; it is not 0.
pub(in crate::fleet) fn memory_mib(field: &str, text: &str) -> Found<u64> {
    let bytes: Bytes = text.parse().map_err(|error| format!("{field}: {error}"))?;
    match bytes.count() >> 20 {
        0 => Err(format!("{field} is {text:?}; expected at least 1MiB")),
        mib => Ok(mib),
    }
}

/// A time with its unit; `30m` is 30 minutes.
pub(in crate::fleet) fn duration(field: &str, text: &str) -> Found<Nanoseconds> {
    let parsed = text.parse::<Nanoseconds>().ok().or_else(|| {
        // A bare number would be seconds; a unit must be said.
        let said = text.trim().ends_with(|c: char| c.is_ascii_alphabetic());
        let seconds = said.then(|| read_duration(text).ok()).flatten()?;
        (seconds < 1.8e10).then(|| Nanoseconds::from_seconds(Seconds::new(seconds)))
    });
    parsed.ok_or_else(|| {
        format!("{field} is {text:?}; expected a time with its unit, such as 90s, 30min, 8h or 3d")
    })
}

/// An amount of money with its currency; it is not negative.
pub(in crate::fleet) fn money(field: &str, text: &str) -> Found<Money> {
    let money = Money::given(text).map_err(|error| format!("{field}: {error}"))?;
    if money.micros < 0 {
        return Err(format!("{field} is {text}; it is not negative"));
    }
    Ok(money)
}

/// A share of one in thousandths: 0.25 or 25 %.
pub(in crate::fleet) fn share_milli(field: &str, share: f64) -> Found<u32> {
    let milli = (share * 1000.0).round();
    if (1.0..=1000.0).contains(&milli) {
        return Ok(milli as u32);
    }
    Err(format!(
        "{field} is {share}; expected a share above 0 and up to 1, such as 0.25"
    ))
}

/// `up`, `draining`, `maintenance`, `lost`, or `xid 79`.
pub(in crate::fleet) fn health(text: &str) -> Found<Health> {
    let word = text.trim().to_ascii_lowercase();
    if let Some(number) = word.strip_prefix("xid") {
        return number
            .trim()
            .parse()
            .map(|xid| Health::Lost { xid })
            .map_err(|_| format!("{text:?} is no XID; expected a number, such as \"xid 79\""));
    }
    match word.as_str() {
        "up" => Ok(Health::Up),
        "draining" => Ok(Health::Draining),
        "maintenance" => Ok(Health::Maintenance),
        "lost" => Ok(Health::Lost { xid: 0 }),
        _ => Err(format!(
            "health is {text:?}; expected \"up\", \"draining\", \"maintenance\", \"lost\" or \"xid 79\""
        )),
    }
}

/// A level of the topology by its word.
pub(in crate::fleet) fn level(field: &str, text: &str) -> Found<Level> {
    let word = text.trim().to_ascii_lowercase();
    Level::ALL
        .into_iter()
        .find(|level| level.name() == word)
        .ok_or_else(|| {
            let words = Level::ALL.map(Level::name).join(", ");
            format!("{field} is {text:?}; expected one of {words}")
        })
}

/// Numbers and ranges of numbers: `0-3,7`. At most `most` of them.
pub(in crate::fleet) fn parts(text: &str, most: usize) -> Found<Vec<u32>> {
    let wrong = || format!("{text:?} are no numbers such as 0-3,7");
    let mut out = Vec::new();
    for part in text.split(',') {
        let part = part.trim();
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let from: u32 = from.trim().parse().map_err(|_| wrong())?;
        let to: u32 = to.trim().parse().map_err(|_| wrong())?;
        if from > to || (to - from) as usize >= most.saturating_sub(out.len()) {
            return Err(wrong());
        }
        out.extend(from..=to);
    }
    Ok(out)
}
