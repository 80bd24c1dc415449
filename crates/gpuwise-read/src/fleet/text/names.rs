//! Names that stand for many: `gpu-{01..16}`, and `gpu-[01-16,20]` as Slurm writes lists of hosts.

use super::Found;

/// Names that one may stand for: what is beyond it was mistyped.
const MOST_NAMES: usize = 1_000_000;

/// Numbers in a row, each at least so wide.
struct Range {
    first: u32,
    last: u32,
    width: usize,
}

/// The names that a text stands for, in order; itself where neither braces nor brackets are in it. Of
/// several ranges the last runs fastest, and a number is as wide as the range's beginning.
pub(in crate::fleet) fn expand(text: &str) -> Found<Vec<String>> {
    with(text, &['{', '['], &['}', ']'])
}

/// The same by braces alone: jobs of an array have brackets in their names.
pub(in crate::fleet) fn expand_braces(text: &str) -> Found<Vec<String>> {
    with(text, &['{'], &['}'])
}

fn with(text: &str, opens: &[char], closes: &[char]) -> Found<Vec<String>> {
    let text = text.trim();
    if text.is_empty() {
        return Err("a name is empty".into());
    }
    if text.chars().any(char::is_control) {
        return Err(format!(
            "the name {text:?} has characters that do not print"
        ));
    }
    let mut out = vec![String::new()];
    let mut rest = text;
    while let Some(open) = rest.find(opens) {
        let (before, inner) = rest.split_at(open);
        let (ranges, after) = group(text, inner)?;
        let many: usize = ranges
            .iter()
            .map(|range| (range.last - range.first) as usize + 1)
            .sum();
        if out.len().saturating_mul(many) > MOST_NAMES {
            return Err(format!("{text:?} stands for more than {MOST_NAMES} names"));
        }
        if before.contains(closes) {
            return Err(unopened(text));
        }
        let names = out.iter().flat_map(|name| {
            ranges.iter().flat_map(move |range| {
                let width = range.width;
                (range.first..=range.last)
                    .map(move |number| format!("{name}{before}{number:0width$}"))
            })
        });
        out = names.collect();
        rest = after;
    }
    if rest.contains(closes) {
        return Err(unopened(text));
    }
    for name in &mut out {
        name.push_str(rest);
    }
    Ok(out)
}

fn unopened(text: &str) -> String {
    format!("{text:?}: a closing brace or bracket has none that opens")
}

/// The ranges of the braces or brackets that a text begins with, and what follows them.
fn group<'a>(text: &str, inner: &'a str) -> Found<(Vec<Range>, &'a str)> {
    if let Some(inner) = inner.strip_prefix('{') {
        let wrong = || format!("{text:?}: what stands in braces is a range such as {{01..16}}");
        let (said, after) = inner.split_once('}').ok_or_else(wrong)?;
        let (from, to) = said.split_once("..").ok_or_else(wrong)?;
        let range = range(from, to).ok_or_else(wrong)?;
        if range.first > range.last {
            return Err(backwards(
                text,
                &format!("{{{said}}}"),
                &format!("{{{to}..{from}}}"),
            ));
        }
        return Ok((vec![range], after));
    }
    let wrong = || format!("{text:?}: what stands in brackets are numbers such as [01-16,20]");
    let inner = inner.strip_prefix('[').ok_or_else(wrong)?;
    let (said, after) = inner.split_once(']').ok_or_else(wrong)?;
    let mut ranges = Vec::new();
    for part in said.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let range = range(from, to).ok_or_else(wrong)?;
        if range.first > range.last {
            return Err(backwards(text, part, &format!("{to}-{from}")));
        }
        ranges.push(range);
    }
    Ok((ranges, after))
}

fn backwards(text: &str, said: &str, right: &str) -> String {
    format!("{text:?}: the range {said} is empty; in order it is {right}")
}

/// Two numbers of digits alone, at most nine.
fn range(from: &str, to: &str) -> Option<Range> {
    let digits = |s: &str| !s.is_empty() && s.len() <= 9 && s.bytes().all(|b| b.is_ascii_digit());
    if !digits(from) || !digits(to) {
        return None;
    }
    Some(Range {
        first: from.parse().ok()?,
        last: to.parse().ok()?,
        width: from.len(),
    })
}
