//! Numbers as profilers print them for people.

/// A number with or without thousands separators; `None` for what is none, `nan` included.
///
/// `54,207,744` and `1,239.5` group by threes; `21,68` is a decimal comma of another language.
pub(super) fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let plain = if !digits.contains(',') {
        digits.to_owned()
    } else if grouped(digits, ',', '.') {
        digits.replace(',', "")
    } else if grouped(digits, '.', ',') {
        digits.replace('.', "").replace(',', ".")
    } else {
        return None;
    };
    let number: f64 = plain.parse().ok()?;
    number.is_finite().then_some(sign * number)
}

/// Whether digits are grouped by threes before their decimal sign.
fn grouped(digits: &str, separator: char, decimal: char) -> bool {
    let whole = match digits.split_once(decimal) {
        Some((_, fraction)) if fraction.contains([separator, decimal]) => return false,
        Some((whole, _)) => whole,
        None => digits,
    };
    let mut groups = whole.split(separator);
    let first = groups.next().unwrap_or("");
    !first.is_empty()
        && first.bytes().all(|byte| byte.is_ascii_digit())
        && groups.all(|group| group.len() == 3 && group.bytes().all(|b| b.is_ascii_digit()))
}
