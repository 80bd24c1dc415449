//! `gpuwise fleet mig`: how a GPU can be cut, and how a mix of instances is packed.

use super::super::{Context, Exit};
use crate::schemas::AnswerName;
use crate::{
    catalogue::{self, Loaded},
    error::Problem,
    names,
    settings::{FleetMig, ProfilesFlag},
};
use gpuwise_domain::{
    catalogue::folded,
    placement::{MigBoard, MigGeometry, Occupancy, ProfileSet},
};
use gpuwise_read::catalogue::read_mig_boards;
use gpuwise_sched::mig::{self, Boards, Packed, layouts};
use gpuwise_view::mig as view;
use std::fs;

/// Steps of the search for a packing.
const EFFORT: u64 = 200_000;

pub(super) fn run(context: &Context, flags: &FleetMig) -> anyhow::Result<Exit> {
    let loaded = catalogue::load(&context.app.overrides)?;
    let (board, whole) = geometry(&loaded, flags)?;
    if flags.counts {
        let mut rows = Vec::new();
        for flag in [ProfilesFlag::Five, ProfilesFlag::Base, ProfilesFlag::All] {
            rows.push(count(&board, &whole, flag)?);
        }
        context
            .answering(AnswerName::FleetMigCounts)
            .table(&view::counts(&rows))?;
        return Ok(Exit::Yes);
    }
    let cut = whole.only(set(flags.profiles));
    if !flags.pack.is_empty() {
        return pack(context, flags, &cut);
    }
    let counted = count(&board, &whole, flags.profiles)?;
    let mut table = view::layouts(&cut, &layouts::maximal(&cut)?);
    table.footnote(format!(
        "{board}: {} layouts to which nothing can be added ({} as sets of profiles) of {} in all. An \
         instance stays where it starts: place large ones first, and keep aligned halves free.",
        counted.maximal, counted.multisets, counted.valid
    ));
    context.answering(AnswerName::FleetMig).table(&table)?;
    Ok(Exit::Yes)
}

fn pack(context: &Context, flags: &FleetMig, cut: &MigGeometry) -> anyhow::Result<Exit> {
    let wanted = wanted(cut, &flags.pack)?;
    let asked: u64 = wanted.iter().map(|count| u64::from(*count)).sum();
    let packed = match flags.boards {
        None => mig::fewest(cut, &wanted, EFFORT)?,
        Some(count) => {
            let taken = Occupancy::default();
            let worth: Vec<u32> = cut.shapes.iter().map(|s| u32::from(s.compute)).collect();
            mig::fill(cut, &[Boards { taken, count }], &wanted, &worth, EFFORT)?
        }
    };
    let placed: u64 = packed.placed.iter().map(|count| u64::from(*count)).sum();
    let cuts: Vec<(u32, Vec<(u8, u8)>)> = packed
        .cuts
        .iter()
        .map(|cut| (cut.count, cut.layout.clone()))
        .collect();
    let mut table = view::cuts(cut, &cuts);
    table.footnote(said(flags.boards, &packed, placed, asked));
    context
        .answering(AnswerName::FleetMigPacking)
        .table(&table)?;
    Ok(if placed == asked { Exit::Yes } else { Exit::No })
}

fn said(boards: Option<u32>, packed: &Packed, placed: u64, asked: u64) -> String {
    match boards {
        None => format!(
            "{placed} instances on {} GPUs; no packing needs fewer than {}.",
            packed.worth, packed.bound
        ),
        Some(boards) => format!(
            "{placed} of {asked} instances on {boards} GPUs: {} compute slices, and no packing places \
             more than {}.",
            packed.worth, packed.bound
        ),
    }
}

/// The board's name and geometry: of the file that was named, else of the catalogue.
fn geometry(loaded: &Loaded, flags: &FleetMig) -> anyhow::Result<(String, MigGeometry)> {
    let wanted = folded(&flags.gpu);
    let of = |board: &MigBoard| {
        let name = board.gpus.iter().find(|gpu| folded(gpu) == wanted)?;
        Some((name.clone(), board.geometry.clone()))
    };
    if let Some(path) = &flags.mig_profiles {
        let shown = path.display().to_string();
        let text = fs::read_to_string(path)
            .map_err(|error| Problem::new(format!("cannot read {shown}")).because(error))?;
        let boards = read_mig_boards(&shown, &text)?;
        if let Some(found) = boards.iter().find_map(of) {
            return Ok(found);
        }
        let names: Vec<&str> = boards
            .iter()
            .flat_map(|b| &b.gpus)
            .map(String::as_str)
            .collect();
        return Err(
            Problem::new(format!("{shown} has no board {:?}", flags.gpu))
                .hint(format!("it has {}", names.join(", ")))
                .into(),
        );
    }
    let catalogue = &loaded.catalogue;
    let gpu = names::gpu(catalogue, "GPU", &flags.gpu)?;
    let found = catalogue.mig_geometry(gpu);
    let found = found.ok_or_else(|| {
        let names: Vec<&str> = catalogue
            .boards
            .iter()
            .flat_map(|b| &b.gpus)
            .map(String::as_str)
            .collect();
        Problem::new(format!(
            "the catalogue knows no MIG profile of {}",
            gpu.name
        ))
        .hint(format!("those with MIG: {}", names.join(", ")))
        .hint("`--mig-profiles FILE` names profiles of boards of your own")
    })?;
    Ok((gpu.name.clone(), found.clone()))
}

fn count(board: &str, whole: &MigGeometry, flag: ProfilesFlag) -> anyhow::Result<view::CountRow> {
    let counts = layouts::counts(&whole.only(set(flag)))?;
    Ok(view::CountRow {
        board: board.to_owned(),
        profiles: match flag {
            ProfilesFlag::Five => "five",
            ProfilesFlag::Base => "base",
            ProfilesFlag::All => "all",
        },
        valid: counts.valid,
        maximal: counts.maximal,
        multisets: counts.multisets,
    })
}

const fn set(flag: ProfilesFlag) -> ProfileSet {
    match flag {
        ProfilesFlag::Five => ProfileSet::Five,
        ProfilesFlag::Base => ProfileSet::Base,
        ProfilesFlag::All => ProfileSet::All,
    }
}

/// Counts by the profile's place, of `PROFILE=COUNT`; `3g` stands for `3g.20gb`.
fn wanted(cut: &MigGeometry, given: &[String]) -> anyhow::Result<Vec<u32>> {
    let mut wanted = vec![0_u32; cut.shapes.len()];
    for one in given {
        let read = one
            .split_once('=')
            .and_then(|(profile, count)| Some((profile.trim(), count.trim().parse::<u32>().ok()?)));
        let (profile, count) = read
            .filter(|(_, count)| *count <= 1_000_000)
            .ok_or_else(|| {
                Problem::new(format!(
                    "--pack {one}: expected a profile and how many, such as 3g.20gb=5"
                ))
            })?;
        let short = format!("{profile}.");
        let known = |name: &str| name == profile || name.starts_with(&short);
        let at = cut.shapes.iter().position(|shape| known(&shape.profile));
        let slot = at.and_then(|at| wanted.get_mut(at)).ok_or_else(|| {
            let names: Vec<&str> = cut.shapes.iter().map(|s| s.profile.as_str()).collect();
            Problem::new(format!(
                "--pack {one}: there is no such profile in this set"
            ))
            .hint(format!(
                "profiles: {}; --profiles all has more",
                names.join(", ")
            ))
        })?;
        *slot = slot.saturating_add(count);
    }
    Ok(wanted)
}
