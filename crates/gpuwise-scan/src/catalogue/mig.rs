//! `mig_profiles.csv` as geometry: where instances of each profile may start.

use super::{CatalogueError, tables::rows};
use gpuwise_domain::placement::{MigBoard, MigGeometry, MigShape};
use serde::Deserialize;

#[derive(Deserialize)]
struct ShapeRow {
    #[serde(alias = "board")]
    gpus: String,
    profile: String,
    memory_mib: Option<u32>,
    #[serde(alias = "sm_count")]
    units: Option<u32>,
    compute_slices: u8,
    memory_slices: u8,
    board_compute_slices: u8,
    board_memory_slices: u8,
    max_instances: u8,
    placement_starts: String,
    placement_size: u8,
}

/// Reads `mig_profiles.csv` as boards with the profiles that they can be cut into, in the file's
/// order. Rows that name the same GPUs are one board. Profiles whose memory or SMs no driver was seen
/// to print are there, without these.
///
/// Columns: `gpus` (or `board`: names joined by `|`), `profile`, `memory_mib` and `units` (or
/// `sm_count`; both may be empty), `compute_slices`, `memory_slices`, `board_compute_slices`,
/// `board_memory_slices`, `max_instances`, `placement_starts` (joined by `;`), `placement_size`.
///
/// # Errors
/// When a row is not of this form, or a board could not be like this: [`MigGeometry::check`].
pub fn read_mig_boards(file: &str, text: &str) -> Result<Vec<MigBoard>, CatalogueError> {
    let mut boards: Vec<(MigBoard, u64)> = Vec::new();
    for (line, row) in rows::<ShapeRow>(file, text)? {
        let wrong = |problem: String| CatalogueError::new(file, format!("line {line}"), problem);
        let shape = shape(&row).map_err(wrong)?;
        let gpus: Vec<String> = row.gpus.split('|').map(|g| g.trim().into()).collect();
        let slices = (row.board_compute_slices, row.board_memory_slices);
        let known = boards.iter_mut().find(|(board, _)| board.gpus == gpus);
        let Some((board, _)) = known else {
            let geometry = MigGeometry {
                compute_slices: slices.0,
                memory_slices: slices.1,
                shapes: vec![shape],
            };
            boards.push((MigBoard { gpus, geometry }, line));
            continue;
        };
        let geometry = &mut board.geometry;
        if (geometry.compute_slices, geometry.memory_slices) != slices {
            let problem = format!(
                "the board {:?} has {} compute and {} memory slices in an earlier row",
                row.gpus, geometry.compute_slices, geometry.memory_slices
            );
            return Err(wrong(problem));
        }
        geometry.shapes.push(shape);
        geometry.check().map_err(|fault| wrong(fault.to_string()))?;
    }
    for (board, line) in &boards {
        board.geometry.check().map_err(|fault| {
            CatalogueError::new(file, format!("line {line}"), fault.to_string())
        })?;
    }
    Ok(boards.into_iter().map(|(board, _)| board).collect())
}

fn shape(row: &ShapeRow) -> Result<MigShape, String> {
    if row.memory_slices != row.placement_size {
        return Err(format!(
            "`memory_slices` is {} but `placement_size` {}: an instance takes as many as it is long",
            row.memory_slices, row.placement_size
        ));
    }
    let mut starts = 0_u16;
    for start in row.placement_starts.split(';') {
        let at: u32 = start.trim().parse().ok().filter(|at| *at < 16).ok_or_else(|| {
            format!("`placement_starts`: {start:?} is not a memory slice from 0 to 15; several are joined by `;`")
        })?;
        starts |= 1 << at;
    }
    Ok(MigShape {
        profile: row.profile.clone(),
        memory_mib: row.memory_mib,
        units: row.units,
        compute: row.compute_slices,
        size: row.placement_size,
        starts,
        most: row.max_instances,
        media: row.profile.contains("+me"),
    })
}
