//! Which columns fit a width, and how wide each becomes.

/// What a column needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Need {
    /// Its place in the table.
    pub index: usize,
    /// Characters of its widest cell.
    pub natural: usize,
    /// Characters down to which it may be wrapped.
    pub floor: usize,
    /// The lowest is left out first.
    pub priority: u8,
}

/// Spaces between columns.
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

/// Widths that fit, taking from the column that is widest beyond its floor.
fn squeeze(needs: &[Need], available: usize) -> Option<Vec<usize>> {
    let gaps = GAP * needs.len().saturating_sub(1);
    let least: usize = needs.iter().map(|need| need.floor.min(need.natural)).sum();
    if least + gaps > available && !needs.is_empty() {
        return None;
    }
    let mut widths: Vec<usize> = needs.iter().map(|need| need.natural).collect();
    while widths.iter().sum::<usize>() + gaps > available {
        let spare = |(width, need): (&usize, &Need)| width.saturating_sub(need.floor);
        let most = widths
            .iter()
            .zip(needs)
            .map(spare)
            .max()
            .filter(|spare| *spare > 0)?;
        let slot = widths
            .iter_mut()
            .zip(needs)
            .find(|(width, need)| width.saturating_sub(need.floor) == most);
        *slot?.0 -= 1;
    }
    Some(widths)
}
