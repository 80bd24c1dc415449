//! Amounts of money in words.

/// Millionths as a decimal number.
pub(super) fn decimal(micros: i64) -> String {
    let text = format!(
        "{}.{:06}",
        micros.abs() / 1_000_000,
        micros.abs() % 1_000_000
    );
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{}{text}", if micros < 0 { "-" } else { "" })
}

pub(super) fn priced(micros: i64, money: &str) -> String {
    format!("{} {money}", decimal(micros))
}

/// The millionths of what [`decimal`] wrote.
pub(super) fn micros(text: &str) -> Option<i64> {
    let (sign, text) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let part: i64 = format!("{part:0<6}").get(..6)?.parse().ok()?;
    Some(
        sign * (whole
            .parse::<i64>()
            .ok()?
            .checked_mul(1_000_000)?
            .checked_add(part)?),
    )
}
