//! What is concluded from the files of one profile.

use super::layouts;
use crate::profiles::{Everything, Profiled};
use gpuwise_domain::profile::{
    figure::Summary,
    figures::ProfileFigures,
    joined::Joined,
    parallel::LayoutComparison,
    sources::Source,
    timeline::{Rank, Timeline},
};
use gpuwise_measure::{
    figures::{Measured, lack_sentence, of_profile, summary},
    findings::{self, Signals, Thresholds},
};
use std::{collections::BTreeSet, convert::Infallible};

/// A profile of one or many files.
#[derive(Debug)]
pub struct Concluded {
    /// What each file holds, in the order of the figures' ranks.
    pub timelines: Vec<Timeline>,
    /// Figures by rank and device.
    pub figures: ProfileFigures,
    /// What is in files that hold no timeline: memory snapshots, counters of kernels, flight recorders.
    pub sources: Vec<Source>,
    /// What is printed, kept and compared.
    pub summary: Summary,
    /// What the profile is known by, where that was asked for: the content of all that it was made of.
    #[cfg_attr(
        not(feature = "database"),
        expect(dead_code, reason = "only what is kept is known again")
    )]
    pub(crate) contents: Vec<String>,
}

/// Layouts that were compared, or why there is nothing to compare; `None` where nobody asked.
pub(super) type Compared = Option<Result<LayoutComparison, String>>;

/// Puts files beside one another, by rank where each has one of its own.
pub(super) fn from(everything: Everything, limits: &Thresholds) -> Concluded {
    let nothing: Result<Concluded, Infallible> = with(
        everything,
        limits,
        |_| Ok(Joined::default()),
        |_, _| Ok(None),
    );
    match nothing {
        Ok(concluded) => concluded,
        Err(never) => match never {},
    }
}

/// The same with what was recorded beside them, which `join` lays on their time axis, and other layouts,
/// which `compare` asks for.
///
/// # Errors
/// When it cannot.
pub(super) fn with<E>(
    everything: Everything,
    limits: &Thresholds,
    join: impl FnOnce(&mut [Profiled]) -> Result<Joined, E>,
    compare: impl FnOnce(&[Timeline], &ProfileFigures) -> Result<Compared, E>,
) -> Result<Concluded, E> {
    let Everything {
        mut profiled,
        sources,
        contents,
        unusable,
    } = everything;
    let rank = |profiled: &Profiled| profiled.measured.figures.rank;
    let ranks: BTreeSet<u32> = profiled.iter().filter_map(rank).collect();
    if ranks.len() == profiled.len() {
        profiled.sort_by_key(rank);
    } else if profiled.len() > 1 {
        // Without ranks of their own, files are told apart by their order.
        for (place, one) in (0..).zip(&mut profiled) {
            one.measured.figures.rank = Some(place);
        }
    }
    let mut missing: Vec<String> = unusable
        .iter()
        .map(|file| format!("{}: {:#}", file.file, file.error))
        .collect();
    if ranks.len() != profiled.len() && profiled.len() > 1 {
        missing.push(
            "the files do not state a rank each: they are numbered in the order in which they were given"
                .into(),
        );
    }
    let several = profiled.len() > 1;
    for one in &profiled {
        losses(one, several, &mut missing);
    }
    let joined = join(&mut profiled)?;
    for one in &mut profiled {
        one.signals.rank = one.measured.figures.rank;
    }
    let contents = together(&profiled, &contents);
    let signals: Vec<Signals> = profiled.iter().map(|one| one.signals.clone()).collect();
    let (timelines, measured): (Vec<Timeline>, Vec<Measured>) = profiled
        .into_iter()
        .map(|one| (one.timeline, one.measured))
        .unzip();
    absent_ranks(&timelines, &ranks, &mut missing);
    let mut figures = of_profile(measured);
    let notes = joined.files.iter().flat_map(|file| {
        file.notes
            .iter()
            .map(move |note| format!("{}: {note}", file.file))
    });
    missing.extend(notes);
    figures.joined = joined;
    match compare(&timelines, &figures)? {
        Some(Ok(compared)) => {
            missing.extend(layouts::silent(&compared));
            figures.layouts = Some(compared);
        }
        Some(Err(why)) => missing.push(why),
        None => {}
    }
    clocks(&timelines, &figures, &mut missing);
    figures.missing.clone_from(&missing);
    let summary = Summary {
        files: once(
            figures
                .ranks
                .iter()
                .map(|rank| rank.file.clone())
                .chain(sources.iter().map(|source| source.file.clone())),
        ),
        started_at_ns: started(&timelines, &figures).into_iter().flatten().min(),
        hardware: once(figures.ranks.iter().flat_map(|rank| {
            let devices = rank.devices.iter();
            devices.filter_map(|device| device.name.clone())
        })),
        software: once(timelines.iter().flat_map(|one| one.software.clone())),
        figures: summary::figures(&figures)
            .into_iter()
            .chain(gpuwise_measure::sources::figures(&sources))
            .collect(),
        findings: findings::of_profile(&signals, &figures, limits),
        missing,
    };
    Ok(Concluded {
        timelines,
        figures,
        sources,
        summary,
        contents,
    })
}

/// What all files are known by: the same files in another order are the same profile.
fn together(profiled: &[Profiled], contents: &[String]) -> Vec<String> {
    let of_timelines = profiled.iter().filter_map(|one| one.content.clone());
    let mut all: Vec<String> = of_timelines.chain(contents.iter().cloned()).collect();
    all.sort_unstable();
    all
}

/// Each once, in order of first appearance.
fn once<T: Ord + Clone>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = BTreeSet::new();
    all.filter(|one| seen.insert(one.clone())).collect()
}

fn losses(one: &Profiled, several: bool, missing: &mut Vec<String>) {
    for loss in &one.timeline.losses {
        let file = if several {
            format!("{}: ", one.file)
        } else {
            String::new()
        };
        let times = if loss.count > 1 {
            format!(" ({} times)", loss.count)
        } else {
            String::new()
        };
        let first = loss.first.as_ref();
        let first = first.map_or_else(String::new, |first| format!(", first at {first}"));
        missing.push(format!("{file}{}{times}{first}", loss.what));
    }
    for lack in &one.measured.figures.lacks {
        let file = if several {
            format!("{}: ", one.file)
        } else {
            String::new()
        };
        missing.push(format!("{file}{}", lack_sentence(lack)));
    }
    for device in &one.timeline.devices {
        if let Some(kind) = &device.other_kind {
            missing.push(format!(
                "{}: device {} is a {kind}, whose work these figures do not describe",
                one.file, device.number
            ));
        }
    }
}

/// Ranks that ran and are not here.
fn absent_ranks(timelines: &[Timeline], here: &BTreeSet<u32>, missing: &mut Vec<String>) {
    let stated = timelines.iter().filter_map(|one| one.rank.as_ref());
    let world = stated.filter_map(|rank: &Rank| rank.world_size).max();
    let Some(world) = world.filter(|world| *world as usize > here.len().max(1)) else {
        return;
    };
    let absent: Vec<u32> = (0..world).filter(|rank| !here.contains(rank)).collect();
    let listed: Vec<String> = absent.iter().take(8).map(u32::to_string).collect();
    let more = if absent.len() > listed.len() {
        " and more"
    } else {
        ""
    };
    if absent.len() < world as usize {
        missing.push(format!(
            "{} of {world} ranks are not here ({}{more}): who waits for whom is told among those that are",
            absent.len(),
            listed.join(", ")
        ));
    }
}

/// When the first work of each file ran, where its clock is known.
fn started(timelines: &[Timeline], figures: &ProfileFigures) -> Vec<Option<i64>> {
    timelines
        .iter()
        .zip(&figures.ranks)
        .map(|(timeline, rank)| {
            let window = rank.whole.window?;
            timeline.epoch_ns?.checked_add(window.start_ns)
        })
        .collect()
}

/// Ranks of one job run at the same time: clocks that say otherwise are wrong.
fn clocks(timelines: &[Timeline], figures: &ProfileFigures, missing: &mut Vec<String>) {
    let starts = started(timelines, figures);
    let known: Vec<(i64, i64)> = starts
        .iter()
        .zip(&figures.ranks)
        .filter_map(|(start, rank)| Some(((*start)?, rank.whole.span_ns())))
        .collect();
    let first_end = known
        .iter()
        .map(|(start, span)| start.saturating_add(*span))
        .min();
    let last_start = known.iter().map(|(start, _)| *start).max();
    if let (Some(end), Some(start)) = (first_end, last_start)
        && start > end
    {
        missing.push(format!(
            "clocks of the files do not agree: one begins {} s after another ended; times are compared within ranks alone",
            gpuwise_units::significant((start - end) as f64 * 1e-9, 3)
        ));
    }
}
