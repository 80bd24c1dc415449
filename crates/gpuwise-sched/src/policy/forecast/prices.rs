//! What is scarce: the chance that a place which is taken now will be missed.

use super::{
    builds::BUILDS,
    classes::Totals,
    mix::{Mix, WIDTHS},
};

/// Prices are fractions of this.
pub(super) const ONE: i64 = 256;

/// For each build of nodes the price of GPU time, then of a place of each width; [`ONE`]: it will be missed
/// for sure. A build that is in several sets pays for each.
pub(super) type Prices = [[i64; WIDTHS + 1]; BUILDS];

/// Prices from what is free and what is to come.
///
/// As many arrivals are to come as the fleet can still take: what is free over what one asks for. Of
/// each number of places those who need them will ask for a number that is about normal. A place is
/// missed when they ask for more than there are.
pub(super) fn prices(mix: &Mix, totals: &Totals) -> Box<Prices> {
    let mut prices = Box::new([[0; WIDTHS + 1]; BUILDS]);
    let micro: i64 = totals.iter().map(|build| build[0]).sum();
    if mix.mean_milli <= 0.0 || micro <= 0 {
        return prices;
    }
    let arrivals = micro as f64 / 1000.0 / mix.mean_milli;
    let present = totals
        .iter()
        .enumerate()
        .filter(|(_, build)| build[0] != 0)
        .fold(0, |set: u64, (build, _)| set | 1 << build);
    for wanted in &mix.wanted {
        for (at, (mean, square)) in wanted.rates.iter().enumerate() {
            // Of GPU time as a whole there is as much as will be asked for, by definition.
            let trivial = at == 0 && present & !wanted.builds == 0;
            if *mean <= 0.0 || trivial {
                continue;
            }
            let unit = if at == 0 { 1e6 } else { 1e3 };
            let free: i64 = each(wanted.builds & present, totals)
                .map(|build| build[at])
                .sum();
            let missing = mean * arrivals - free as f64 / unit;
            let spread = libm::sqrt(square * arrivals + 1.0);
            let chance = 0.5 * libm::erfc(-missing / spread * core::f64::consts::FRAC_1_SQRT_2);
            let price = libm::round(chance * ONE as f64) as i64;
            for (build, paid) in prices.iter_mut().enumerate() {
                if wanted.builds >> build & 1 == 1 {
                    paid[at] += price;
                }
            }
        }
    }
    prices
}

fn each(builds: u64, totals: &Totals) -> impl Iterator<Item = &[i64; WIDTHS + 1]> {
    let mut left = builds;
    core::iter::from_fn(move || {
        let build = left.trailing_zeros() as usize;
        left &= left.wrapping_sub(1);
        totals.get(build)
    })
}
