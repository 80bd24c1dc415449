//! What was concluded: steps, why devices stood still, the critical path, findings.

use super::{PROCESSES_APART, Spot, Trace, place, quoted};
use crate::profile::{Profile, tracks};
use gpuwise_domain::profile::finding::{Finding, Place};
use std::io::{self, Write};

/// Process of the first rank's conclusions: beyond all that systems number.
const PROCESS: i64 = 9_000_000;
const STEPS: i64 = 1;
const PATH: i64 = 2;
/// Threads of idle time begin here, one for each device.
const IDLE: i64 = 10;
/// Threads of findings begin here, one for each.
const FINDINGS: i64 = 1000;

impl<W: Write> Trace<'_, W> {
    /// What was concluded about one rank.
    pub(super) fn conclusions(&mut self, profile: &Profile, rank: usize) -> io::Result<()> {
        let process = PROCESS + place(rank) * PROCESSES_APART;
        let label = if profile.timelines.len() > 1 {
            format!("{} by gpuwise", profile.rank_label(rank))
        } else {
            "found by gpuwise".into()
        };
        self.name(process, None, &label, place(rank) * 100)?;
        if let Some(figures) = profile.figures.ranks.get(rank) {
            if let Some(steps) = &figures.steps {
                self.track(rank, process, STEPS, "steps", &tracks::steps(steps))?;
            }
            if let Some(path) = &figures.critical_path {
                self.track(rank, process, PATH, "critical path", &tracks::path(path))?;
            }
        }
        for (index, (device, _, gaps)) in (0..).zip(profile.gaps_of(rank)) {
            let name = format!("why GPU {device} stands still");
            self.track(rank, process, IDLE + index, &name, &tracks::gaps(gaps))?;
        }
        for (index, finding) in (0..).zip(&profile.summary.findings) {
            self.finding(profile, finding, (rank, process, FINDINGS + index))?;
        }
        Ok(())
    }

    fn track(
        &mut self,
        rank: usize,
        process: i64,
        thread: i64,
        name: &str,
        spans: &tracks::Spans,
    ) -> io::Result<()> {
        if spans.is_empty() {
            return Ok(());
        }
        self.name(process, Some(thread), name, thread)?;
        for (start, end, name, _) in spans {
            let at = Spot {
                rank,
                process,
                thread,
            };
            self.span(at, "gpuwise", &quoted(name), (*start, *end), "")?;
        }
        Ok(())
    }

    fn finding(
        &mut self,
        profile: &Profile,
        finding: &Finding,
        at: (usize, i64, i64),
    ) -> io::Result<()> {
        let (rank, process, thread) = at;
        let number = profile
            .figures
            .ranks
            .get(rank)
            .and_then(|figures| figures.rank);
        let here = |place: &&Place| match place.rank.or(finding.scope.rank) {
            Some(of) => number == Some(of) || (number.is_none() && rank == 0),
            None => rank == 0,
        };
        let places: Vec<&Place> = finding.places.iter().filter(here).collect();
        if places.is_empty() {
            return Ok(());
        }
        self.name(
            process,
            Some(thread),
            &format!("finding: {}", finding.class.replace('_', " ")),
            thread,
        )?;
        let args = serde_json::json!({
            "statement": finding.statement,
            "gain": crate::profile::gain(finding.gain),
            "advice": finding.advice.join(" "),
        })
        .to_string();
        for place in places {
            let at = Spot {
                rank,
                process,
                thread,
            };
            self.span(
                at,
                "gpuwise",
                &quoted(&place.what),
                (place.start_ns, place.end_ns),
                &args,
            )?;
        }
        Ok(())
    }
}
