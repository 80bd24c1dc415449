//! Profiles: what a job did on its GPUs, as one page and as an annotated trace.

mod clock;
mod detail;
pub mod differences;
pub mod hta;
mod html;
mod joined;
mod kernel_name;
pub mod operators;
mod palette;
mod perfetto;
pub mod shards;
pub mod sources;
pub mod streams;
pub mod summary;
mod tracks;

use gpuwise_domain::profile::{
    figure::Summary,
    figures::{Gap, OperatorTree, ProfileFigures},
    timeline::Timeline,
};

pub use html::{report, report_within};
pub(crate) use kernel_name::kernel_name;
pub use perfetto::perfetto;

use html::gain;

/// Gaps of one rank that are shown one by one; beyond, the longest alone.
const MOST_GAPS: usize = 200_000;

/// One profile, of one or many ranks, with everything that was concluded from it.
#[derive(Clone, Copy)]
pub struct Profile<'a> {
    /// What it is called on the page: a file's name, `before`.
    pub label: &'a str,
    /// What each rank did, in the order of [`ProfileFigures::ranks`].
    pub timelines: &'a [Timeline],
    /// Figures of each rank.
    pub figures: &'a ProfileFigures,
    /// Figures one by one, findings, and what is missing.
    pub summary: &'a Summary,
    /// For each timeline: why each of its devices stood still, by the device's number, in order of
    /// time. Where it is empty, the longest gaps of the figures are shown.
    pub gaps: &'a [Vec<(i64, Vec<Gap>)>],
    /// Time by module, range and operator, in the order of the timelines.
    pub operators: &'a [OperatorTree],
    /// Ranges of all ranks, those of a name beside one another.
    pub ranges: &'a [streams::RangeRow],
    /// The kind of a kernel or copy by its name (`gemm`, `communication`, `copy`, `other`).
    pub kind_of: &'a dyn Fn(&str) -> String,
}

impl std::fmt::Debug for Profile<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Profile")
            .field("label", &self.label)
            .field("ranks", &self.timelines.len())
            .finish_non_exhaustive()
    }
}

impl Profile<'_> {
    /// Why each device of a rank stood still: its number, whether these are the longest gaps alone,
    /// and the gaps.
    fn gaps_of(&self, index: usize) -> Vec<(i64, bool, &[Gap])> {
        let few = |devices: &&Vec<(i64, Vec<Gap>)>| {
            devices.iter().map(|device| device.1.len()).sum::<usize>() <= MOST_GAPS
        };
        if let Some(devices) = self.gaps.get(index).filter(few) {
            let all = devices.iter();
            return all
                .map(|(number, gaps)| (*number, false, gaps.as_slice()))
                .collect();
        }
        let devices = self
            .figures
            .ranks
            .get(index)
            .map_or(&[][..], |rank| &rank.devices);
        devices
            .iter()
            .map(|device| {
                (
                    device.device.unwrap_or(0),
                    true,
                    device.idle.longest.as_slice(),
                )
            })
            .collect()
    }

    /// What a rank is called: by its number where that is known, else by its file.
    fn rank_label(&self, index: usize) -> String {
        let figures = self.figures.ranks.get(index);
        let stated = self
            .timelines
            .get(index)
            .and_then(|timeline| timeline.rank.as_ref());
        let number = figures
            .and_then(|figures| figures.rank)
            .or_else(|| stated.map(|rank| rank.number));
        match (number, figures) {
            (Some(number), _) => format!("rank {number}"),
            (None, Some(figures)) if !figures.file.is_empty() => {
                figures.file.rsplit('/').next().unwrap_or_default().into()
            }
            _ => format!("file {}", index + 1),
        }
    }
}

/// A time of a profile as a reader would say it: `480 ms`, `3.2 µs`.
pub(crate) fn duration(nanoseconds: i64) -> String {
    if nanoseconds < 0 {
        return format!("−{}", duration(nanoseconds.saturating_neg()));
    }
    if nanoseconds == 0 {
        return "0".into();
    }
    if nanoseconds < 1000 {
        return format!("{nanoseconds} ns");
    }
    crate::figures::seconds(nanoseconds as f64 * 1e-9)
}
