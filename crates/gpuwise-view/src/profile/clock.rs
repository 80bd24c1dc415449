//! Where the timelines of several ranks lie beside one another.

use gpuwise_domain::profile::timeline::Timeline;

/// The clocks of the ranks of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Clock {
    /// For each timeline: which time of its file is zero on the page.
    pub origins: Vec<i64>,
    /// The last time on the page, in nanoseconds.
    pub end: i64,
    /// Whether every rank begins at its own first event, since their clocks do not agree.
    pub aligned: bool,
}

impl Clock {
    /// Clocks of several hosts do not compare: where spans of ranks are far apart, each is laid at
    /// its own beginning. `own` asks for that in any case.
    pub(super) fn of<'a>(timelines: impl Iterator<Item = &'a Timeline>, own: bool) -> Self {
        let spans: Vec<(i64, i64)> = timelines
            .map(|timeline| extent(timeline).unwrap_or((0, 0)))
            .collect();
        let known = || spans.iter().filter(|(start, end)| end > start);
        let first = known().map(|span| span.0).min().unwrap_or(0);
        let last = known().map(|span| span.1).max().unwrap_or(0);
        let longest = known()
            .map(|(start, end)| end.saturating_sub(*start))
            .max()
            .unwrap_or(0);
        let aligned = own || last.saturating_sub(first) > longest.saturating_mul(2);
        let aligned = aligned && spans.len() > 1;
        Self {
            origins: spans
                .iter()
                .map(|span| if aligned { span.0 } else { first })
                .collect(),
            end: if aligned {
                longest
            } else {
                last.saturating_sub(first)
            },
            aligned,
        }
    }

    /// A time of a rank on the page.
    pub(super) fn at(&self, rank: usize, time: i64) -> i64 {
        time.saturating_sub(self.origins.get(rank).copied().unwrap_or(0))
    }
}

/// From the first to the last moment of a timeline; the host's side counts where it surrounds work.
fn extent(timeline: &Timeline) -> Option<(i64, i64)> {
    let work = timeline
        .work
        .iter()
        .map(|work| (work.start_ns, work.end_ns));
    let host = timeline
        .operators
        .iter()
        .chain(&timeline.calls)
        .chain(&timeline.annotations);
    let host = host.map(|span| (span.start_ns, span.end_ns));
    let memory = timeline
        .memory
        .iter()
        .map(|event| (event.at_ns, event.at_ns));
    let samples = timeline
        .samples
        .iter()
        .map(|sample| (sample.at_ns, sample.at_ns));
    work.chain(host)
        .chain(memory)
        .chain(samples)
        .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}
