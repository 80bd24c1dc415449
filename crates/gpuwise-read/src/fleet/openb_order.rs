//! Orders by seed: in which pods of a list arrive, and in which nodes are preferred among equals.

use super::FleetError;

/// Numbers that belong to one seed, in the order of their file's rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeededOrder {
    pub seed: u64,
    /// A row of the pod list for each arrival, or a rank for each node.
    pub numbers: Vec<u32>,
}

/// Reads a table whose first column counts its rows from 0 and whose others, `seed42,seed43,…`, hold
/// the numbers of a seed. Cells past the end of a shorter seed are empty; each number is below `limit`.
///
/// # Errors
/// When there is no column of a seed, rows are not counted, a number is missing in between or too large.
pub fn read_openb_orders(
    file: &str,
    text: &str,
    limit: usize,
) -> Result<Vec<SeededOrder>, FleetError> {
    let wrong = |line: usize, problem: String| FleetError {
        file: file.into(),
        place: format!("line {line}"),
        problem,
    };
    let mut lines = text.lines().zip(1..);
    let (head, _) = lines
        .next()
        .ok_or_else(|| wrong(1, "the file is empty; expected a header".into()))?;
    let mut orders = head
        .trim_end()
        .split(',')
        .skip(1)
        .map(|name| {
            let seed = name.trim().strip_prefix("seed").unwrap_or_default();
            let seed = seed
                .parse()
                .map_err(|_| wrong(1, format!("the column {name:?} is not seedN")))?;
            Ok(SeededOrder {
                seed,
                numbers: Vec::new(),
            })
        })
        .collect::<Result<Vec<_>, FleetError>>()?;
    if orders.is_empty() {
        return Err(wrong(1, "there is no column seedN".into()));
    }
    for (line, number) in lines.filter(|(line, _)| !line.trim().is_empty()) {
        let mut cells = line.trim_end().split(',');
        let row = number - 2;
        if cells.next().and_then(|cell| cell.parse().ok()) != Some(row) {
            return Err(wrong(number, format!("the first column is not {row}")));
        }
        for order in &mut orders {
            let cell = cells.next().unwrap_or_default().trim();
            if cell.is_empty() {
                continue;
            }
            let seed = order.seed;
            if order.numbers.len() != row {
                return Err(wrong(
                    number,
                    format!("seed {seed} has a gap before this row"),
                ));
            }
            match cell.parse::<u32>() {
                Ok(value) if (value as usize) < limit => order.numbers.push(value),
                _ => {
                    return Err(wrong(
                        number,
                        format!("seed {seed} has {cell:?}; expected a number below {limit}"),
                    ));
                }
            }
        }
    }
    Ok(orders)
}
