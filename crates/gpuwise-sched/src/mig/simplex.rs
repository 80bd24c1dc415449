//! A small dense simplex for bounds: maximise c·x over A·x ≤ b, x ≥ 0, where b ≥ 0.

pub(super) struct Best {
    /// The greatest c·x.
    pub value: f64,
    pub x: Vec<f64>,
}

const TINY: f64 = 1e-9;

/// Solves by Bland's rule, which never cycles. `None`: unbounded, or more than `pivots` steps.
pub(super) fn maximise(c: &[f64], rows: &[Vec<f64>], b: &[f64], pivots: usize) -> Option<Best> {
    let (variables, constraints) = (c.len(), rows.len());
    let width = variables + constraints + 1;
    let mut table: Vec<Vec<f64>> = Vec::with_capacity(constraints + 1);
    for (at, (row, limit)) in rows.iter().zip(b).enumerate() {
        let mut line = row.clone();
        line.resize(width, 0.0);
        *line.get_mut(variables + at)? = 1.0;
        *line.last_mut()? = *limit;
        table.push(line);
    }
    let mut goal: Vec<f64> = c.iter().map(|c| -c).collect();
    goal.resize(width, 0.0);
    let mut basis: Vec<usize> = (variables..variables + constraints).collect();
    for _ in 0..pivots {
        let Some(entering) = goal.iter().take(width - 1).position(|cost| *cost < -TINY) else {
            let mut x = vec![0.0; variables];
            for (line, basic) in table.iter().zip(&basis) {
                if let (Some(slot), Some(value)) = (x.get_mut(*basic), line.last()) {
                    *slot = *value;
                }
            }
            let value = goal.last().copied()?;
            return Some(Best { value, x });
        };
        let leaving = leaving(&table, &basis, entering)?;
        pivot(&mut table, &mut goal, leaving, entering)?;
        *basis.get_mut(leaving)? = entering;
    }
    None
}

fn leaving(table: &[Vec<f64>], basis: &[usize], entering: usize) -> Option<usize> {
    let mut best: Option<(f64, usize, usize)> = None;
    for (at, (line, basic)) in table.iter().zip(basis).enumerate() {
        let (by, limit) = (*line.get(entering)?, *line.last()?);
        if by <= TINY {
            continue;
        }
        let ratio = limit / by;
        let better = best.is_none_or(|(least, first, _)| {
            ratio < least - TINY || (ratio <= least + TINY && *basic < first)
        });
        if better {
            best = Some((ratio, *basic, at));
        }
    }
    best.map(|(_, _, at)| at)
}

fn pivot(table: &mut [Vec<f64>], goal: &mut [f64], leaving: usize, entering: usize) -> Option<()> {
    let line = table.get_mut(leaving)?;
    let by = *line.get(entering)?;
    for value in line.iter_mut() {
        *value /= by;
    }
    let line = line.clone();
    let others = table.iter_mut().enumerate();
    let others = others
        .filter(|(at, _)| *at != leaving)
        .map(|(_, other)| other.as_mut_slice());
    for other in others.chain(core::iter::once(goal)) {
        let by = *other.get(entering)?;
        if by.abs() > 0.0 {
            for (value, of) in other.iter_mut().zip(&line) {
                *value -= by * of;
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::maximise;

    #[test]
    fn textbook_programs() {
        for (c, rows, b, value) in [
            // Wyndor Glass (Hillier and Lieberman): 3x + 5y, x ≤ 4, 2y ≤ 12, 3x + 2y ≤ 18.
            (
                vec![3.0, 5.0],
                vec![vec![1.0, 0.0], vec![0.0, 2.0], vec![3.0, 2.0]],
                vec![4.0, 12.0, 18.0],
                Some(36.0),
            ),
            // Beale's example, on which the usual rule cycles.
            (
                vec![0.75, -150.0, 0.02, -6.0],
                vec![
                    vec![0.25, -60.0, -0.04, 9.0],
                    vec![0.5, -90.0, -0.02, 3.0],
                    vec![0.0, 0.0, 1.0, 0.0],
                ],
                vec![0.0, 0.0, 1.0],
                Some(0.05),
            ),
            (vec![1.0], vec![vec![-1.0]], vec![1.0], None),
        ] {
            let best = maximise(&c, &rows, &b, 1000).map(|best| (best.value * 1e6).round() / 1e6);
            assert_eq!(best, value);
        }
    }
}
