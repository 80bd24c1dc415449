//! Student's t distribution.

/// The t beyond which, on both sides together, 5 % lie, for so many degrees of freedom (taken as 1 at
/// least).
pub(super) fn two_sided_95(freedom: f64) -> f64 {
    const TAILS: f64 = 0.05;
    /// The same of the normal distribution.
    const NORMAL: f64 = 1.959_963_984_540_054;
    let freedom = freedom.max(1.0);
    if freedom > 1e4 || !freedom.is_finite() {
        // Abramowitz and Stegun, 26.7.5, first term; the next is below 1e-7 here.
        return NORMAL + (NORMAL * NORMAL * NORMAL + NORMAL) / (4.0 * freedom);
    }
    let tails = |t: f64| incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5);
    let (mut low, mut high) = (NORMAL, 13.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if tails(middle) > TAILS {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// The regularised incomplete beta function I_x(a, b), by the continued fraction of Abramowitz and
/// Stegun, 26.5.8, which converges quickly below its mean; above, by symmetry.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let beta = libm::lgamma(a) + libm::lgamma(b) - libm::lgamma(a + b);
    let front = libm::exp(a * libm::log(x) + b * libm::log1p(-x) - beta) / a;
    front / fraction(x, a, b)
}

/// 1 + d₁ / (1 + d₂ / (1 + …)), from the inside out.
fn fraction(x: f64, a: f64, b: f64) -> f64 {
    const TERMS: u32 = 400;
    let mut value = 1.0;
    for term in (1..=TERMS).rev() {
        let half = f64::from(term / 2);
        let next = a + 2.0 * half;
        let factor = if term % 2 == 0 {
            half * (b - half) / ((next - 1.0) * next)
        } else {
            -(a + half) * (a + b + half) / (next * (next + 1.0))
        };
        value = 1.0 + factor * x / value;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_printed_tables_have_it() {
        // Abramowitz and Stegun, table 26.10, column 0.95.
        for (freedom, t) in [
            (1.0, 12.706),
            (2.0, 4.303),
            (3.0, 3.182),
            (4.0, 2.776),
            (7.0, 2.365),
            (10.0, 2.228),
            (30.0, 2.042),
            (120.0, 1.980),
            (1e9, 1.960),
        ] {
            let found = two_sided_95(freedom);
            assert!((found - t).abs() < 6e-4, "{freedom}: {found}");
        }
        let (below, above) = (two_sided_95(9_999.0), two_sided_95(10_001.0));
        assert!((below - above).abs() < 1e-6, "{below} {above}");
    }
}
