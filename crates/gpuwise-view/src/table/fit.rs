//! Which columns fit a width, and how wide each becomes.

#[derive(Debug, Clone, Copy)]
pub(super) struct Need {
    pub index: usize,
    /// Characters of its widest cell.
    pub natural: usize,
    /// Characters down to which it may be wrapped.
    pub floor: usize,
    /// The lowest is left out first.
    pub priority: u8,
}

pub(super) const GAP: usize = 2;

/// The columns that are kept, with their widths, in order.
pub(super) fn fit(mut needs: Vec<Need>, available: usize) -> Vec<(usize, usize)> {
    loop {
        if let Some(widths) = squeeze(&needs, available) {
            return needs.iter().map(|need| need.index).zip(widths).collect();
        }
        let droppable = needs
            .iter()
            .enumerate()
            .filter(|(_, need)| need.priority < u8::MAX);
        // Of equals the rightmost goes first.
        let Some((victim, _)) = droppable.min_by_key(|(at, need)| (need.priority, usize::MAX - at))
        else {
            break;
        };
        needs.remove(victim);
    }
    // Nothing more may go: every column is wrapped as far as it must be.
    loop {
        let even =
            available.saturating_sub(GAP * needs.len().saturating_sub(1)) / needs.len().max(1);
        for need in &mut needs {
            need.floor = need.natural.min(even.max(1));
        }
        if let Some(widths) = squeeze(&needs, available) {
            return needs.iter().map(|need| need.index).zip(widths).collect();
        }
        needs.pop();
    }
}

/// Widths that fit: from the widest column that can give all that is missing, so that one column
/// is wrapped and not all; else from each that is widest beyond its floor.
fn squeeze(needs: &[Need], available: usize) -> Option<Vec<usize>> {
    let gaps = GAP * needs.len().saturating_sub(1);
    let spare = |width: usize, need: &Need| width.saturating_sub(need.floor);
    let mut widths: Vec<usize> = needs.iter().map(|need| need.natural).collect();
    let missing =
        |widths: &[usize]| (widths.iter().sum::<usize>() + gaps).saturating_sub(available);
    let whole = missing(&widths);
    let giver = widths
        .iter_mut()
        .zip(needs)
        .filter(|(width, need)| spare(**width, need) >= whole)
        .max_by_key(|(width, _)| **width);
    if let Some((width, _)) = giver {
        *width -= whole;
        return Some(widths);
    }
    while missing(&widths) > 0 {
        let (width, _) = widths
            .iter_mut()
            .zip(needs)
            .filter(|(width, need)| spare(**width, need) > 0)
            .max_by_key(|(width, need)| spare(**width, need))?;
        *width -= 1;
    }
    Some(widths)
}
