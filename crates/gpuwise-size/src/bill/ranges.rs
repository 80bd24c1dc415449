//! Ranges: the same bill with one assumption at a time at either end.

use super::{BillError, Question, lines::Lines, lines::lines};
use alloc::vec::Vec;
use gpuwise_domain::bill::{Amount, Band, CostInput};
use gpuwise_units::{Currency, Fraction, Money};

/// A bill with one assumption at its lower and one with it at its upper end.
pub(super) struct Variant {
    pub(super) input: CostInput,
    pub(super) low: Lines,
    pub(super) high: Lines,
}

pub(super) fn variants(question: &Question) -> Result<Vec<Variant>, BillError> {
    let ranged = question
        .inputs
        .iter()
        .filter(|input| input.low != input.high);
    ranged
        .map(|input| {
            Ok(Variant {
                input: input.clone(),
                low: lines(&question.with(input.key, input.low))?,
                high: lines(&question.with(input.key, input.high))?,
            })
        })
        .collect()
}

/// A figure with its range: what each assumption moves it by, as independent ones add up (the root of
/// the sum of squares), to either side apart.
pub(super) fn band(
    value: Fraction,
    variants: &[Variant],
    figure: impl Fn(&Lines) -> Option<Fraction>,
) -> Band {
    // Squares in 10⁻⁶ of the figure's unit; integers, so that the range too is the same everywhere.
    let micros = |moved: Fraction| -> u128 {
        let scaled = moved.times(Fraction::whole(1_000_000));
        let scaled = scaled.and_then(|scaled| scaled.rounded(0)?.as_whole());
        u128::from(scaled.map_or(0, i64::unsigned_abs))
    };
    let (mut below, mut above) = (0_u128, 0_u128);
    for variant in variants {
        let moved = |lines| figure(lines).and_then(|other| other.minus(value));
        let ends = [moved(&variant.low), moved(&variant.high)];
        let ends = ends.map(|end| end.unwrap_or(Fraction::ZERO));
        let down = ends.into_iter().fold(Fraction::ZERO, Ord::min);
        let up = ends.into_iter().fold(Fraction::ZERO, Ord::max);
        below = below.saturating_add(micros(down).saturating_pow(2));
        above = above.saturating_add(micros(up).saturating_pow(2));
    }
    let by = |squares: u128| {
        let root = i128::try_from(squares.isqrt()).unwrap_or(i128::MAX);
        Fraction::new(root, 1_000_000).unwrap_or(Fraction::ZERO)
    };
    Band {
        value,
        low: value.minus(by(below)).unwrap_or(value),
        high: value.plus(by(above)).unwrap_or(value),
    }
}

/// The same of money.
pub(super) fn amount(band: &Band, currency: Currency) -> Amount {
    let money = |fraction: Fraction| {
        fraction.to_money(currency).unwrap_or(Money {
            micros: i64::MAX,
            currency,
        })
    };
    Amount {
        value: money(band.value),
        low: money(band.low),
        high: money(band.high),
    }
}
