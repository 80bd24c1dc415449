//! A board's energy among those who shared it.

use crate::money::split;

gpuwise_units::named! {
    /// By which rule a board's energy was divided.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum EnergyRule:
        name,
        /// In a sentence.
        sentence
    {
        Activity = "activity", "active energy by measured activity, idle energy by granted share",
        Granted = "granted", "all of it by granted share: the device does not tell its tenants apart",
    }
}

/// What one of those who share a board was granted and did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sharer {
    /// Granted share of compute, in any unit that all have in common.
    pub granted: u64,
    /// Activity, such as time in which multiprocessors worked; `None`: the device does not tell.
    pub active: Option<u64>,
}

/// Divides what a board used, of which so much it uses when idle, in thousandths of a joule: parts sum to
/// the whole. Idle energy goes by granted share. The rest goes by activity where all of it is known and
/// there is some, else by granted share too; which of both it was is said.
pub fn divide_energy(board_mj: u64, idle_mj: u64, sharers: &[Sharer]) -> (Vec<u64>, EnergyRule) {
    let granted: Vec<u64> = sharers.iter().map(|sharer| sharer.granted).collect();
    let active: Option<Vec<u64>> = sharers.iter().map(|sharer| sharer.active).collect();
    let active = active.filter(|active| active.iter().any(|active| *active > 0));
    let idle = match active {
        Some(_) => board_mj.min(idle_mj),
        None => board_mj,
    };
    let mut parts = split(i128::from(idle), &granted);
    let rule = match active {
        None => EnergyRule::Granted,
        Some(active) => {
            let rest = split(i128::from(board_mj - idle), &active);
            for (part, more) in parts.iter_mut().zip(rest) {
                *part += more;
            }
            EnergyRule::Activity
        }
    };
    // No part is above the whole, which is one of these.
    (parts.into_iter().map(|part| part as u64).collect(), rule)
}
