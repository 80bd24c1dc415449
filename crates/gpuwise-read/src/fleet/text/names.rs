//! Names that stand for many: `gpu-{01..16}`.

use super::Found;

/// Names that one may stand for: what is beyond it was mistyped.
const MOST_NAMES: usize = 1_000_000;

/// The names that a text stands for, in order; itself where no braces are in it. Of several ranges the
/// last runs fastest, and a number is as wide as the range's beginning.
pub(in crate::fleet) fn expand(text: &str) -> Found<Vec<String>> {
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
    while let Some((before, inner)) = rest.split_once('{') {
        let wrong = || format!("{text:?}: what stands in braces is a range such as {{01..16}}");
        let (range, after) = inner.split_once('}').ok_or_else(wrong)?;
        let (from, to) = range.split_once("..").ok_or_else(wrong)?;
        let digits =
            |s: &str| !s.is_empty() && s.len() <= 9 && s.bytes().all(|b| b.is_ascii_digit());
        if !digits(from) || !digits(to) {
            return Err(wrong());
        }
        let (first, last): (u32, u32) = (
            from.parse().map_err(|_| wrong())?,
            to.parse().map_err(|_| wrong())?,
        );
        if first > last {
            return Err(format!("{text:?}: the range {{{range}}} is empty"));
        }
        let many = (last - first) as usize + 1;
        if out.len().saturating_mul(many) > MOST_NAMES {
            return Err(format!("{text:?} stands for more than {MOST_NAMES} names"));
        }
        let width = from.len();
        out = out
            .iter()
            .flat_map(|name| {
                (first..=last).map(move |number| format!("{name}{before}{number:0width$}"))
            })
            .collect();
        rest = after;
    }
    if rest.contains('}') {
        return Err(format!("{text:?}: a closing brace has none that opens"));
    }
    for name in &mut out {
        name.push_str(rest);
    }
    Ok(out)
}
