//! How a GPU can be cut into MIG instances, as tables.

use crate::table::{Cell, Column, Table};
use gpuwise_domain::placement::{MigGeometry, Occupancy};

/// Instances, each as a profile's place and its start: `2g.10gb@0 1g.5gb@2`.
pub fn placements(geometry: &MigGeometry, layout: &[(u8, u8)]) -> String {
    let name = |(shape, start): &(u8, u8)| {
        let profile = geometry
            .shape(*shape)
            .map_or("?", |row| row.profile.as_str());
        format!("{profile}@{start}")
    };
    layout.iter().map(name).collect::<Vec<_>>().join(" ")
}

/// Maximal layouts, a line each.
pub fn layouts(geometry: &MigGeometry, layouts: &[Vec<(u8, u8)>]) -> Table {
    let mut table = Table::new(vec![
        Column::right("layout", "layout"),
        Column::right("instances", "instances"),
        Column::right("compute_slices_used", "compute"),
        Column::right("memory_slices_used", "memory"),
        Column::left("placements", "placements").wrap(40),
    ])
    .when_empty("This GPU has no MIG.");
    for (layout, number) in layouts.iter().zip(1..) {
        let taken = geometry
            .together(layout.iter().copied())
            .unwrap_or_default();
        table.push(vec![
            Cell::count(number),
            Cell::count(layout.len() as u64),
            Cell::count(u64::from(taken.compute)),
            Cell::count(u64::from(taken.memory.count_ones())),
            Cell::text(placements(geometry, layout)),
        ]);
    }
    table
}

/// How many layouts there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountRow {
    pub board: String,
    pub profiles: &'static str,
    /// All layouts, the uncut board among them.
    pub valid: usize,
    /// Those to which nothing can be added.
    pub maximal: usize,
    /// Those as sets of profiles.
    pub multisets: usize,
}

/// Counts, a line for each set of profiles.
pub fn counts(rows: &[CountRow]) -> Table {
    let mut table = Table::new(vec![
        Column::left("board", "board"),
        Column::left("profile_set", "profiles"),
        Column::right("valid_layouts_including_empty", "layouts"),
        Column::right("maximal_layouts_with_positions", "maximal"),
        Column::right("distinct_maximal_multisets", "as sets"),
    ]);
    for row in rows {
        table.push(vec![
            Cell::text(row.board.clone()),
            Cell::text(row.profiles),
            Cell::count(row.valid as u64),
            Cell::count(row.maximal as u64),
            Cell::count(row.multisets as u64),
        ]);
    }
    table
}

/// How boards are cut for a mix of requests: how many of them, and each one's instances.
pub fn cuts(geometry: &MigGeometry, cuts: &[(u32, Vec<(u8, u8)>)]) -> Table {
    let mut table = Table::new(vec![
        Column::right("boards", "boards"),
        Column::right("compute_slices_used", "compute"),
        Column::right("memory_slices_used", "memory"),
        Column::left("placements", "placements").wrap(40),
    ])
    .when_empty("No instance is packed.");
    for (boards, layout) in cuts {
        let taken: Occupancy = geometry
            .together(layout.iter().copied())
            .unwrap_or_default();
        table.push(vec![
            Cell::count(u64::from(*boards)),
            Cell::count(u64::from(taken.compute)),
            Cell::count(u64::from(taken.memory.count_ones())),
            Cell::text(placements(geometry, layout)),
        ]);
    }
    table
}
