//! The cheapest mix of variants that serves a rate: an H100 beside three L4.

mod search;

pub use search::{Item, NEEDS, Needs, Problem};

/// Replicas of one kind: a GPU type or slice, a layout, on demand or spot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// Requests a second that one serves within the SLO.
    pub rate: f64,
    /// What one costs an hour.
    pub price: f64,
    /// As many as can be had.
    pub most: u32,
}

/// How many of each serve so many requests a second at the least cost; `None`: all of them together do not. Exact.
pub fn cheapest(demand: f64, choices: &[Choice]) -> Option<Vec<u32>> {
    let items: Vec<Item> = choices
        .iter()
        .map(|one| Item {
            cost: one.price,
            most: one.most,
            covers: first(one.rate),
            pool: 0,
            gpus: 0,
        })
        .collect();
    Problem {
        items: &items,
        needs: first(demand),
        gpus: &[],
        below: f64::INFINITY,
        steps: u64::MAX,
    }
    .cheapest()
}

/// One need, and no other.
fn first(value: f64) -> Needs {
    let mut needs = [0.0; NEEDS];
    needs[0] = value;
    needs
}
