//! Series in the making: each once, in order of time.

use super::RecordingError;
use gpuwise_domain::{
    profile::joined::{RecordedMetric, RecordedSample, RecordedSeries, Recording, RecordingClock},
    telemetry::{GpuIdentity, Subject},
};
use std::collections::BTreeMap;

/// Series of one file; more are left out.
const MOST_SERIES: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Gathered {
    series: Vec<RecordedSeries>,
    places: BTreeMap<(String, String), usize>,
    clock: Option<RecordingClock>,
    pub(super) notes: Vec<String>,
    beyond: u64,
}

impl Gathered {
    pub(super) fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    /// All times of a file count from the same.
    pub(super) fn clock(
        &mut self,
        line: Option<usize>,
        column: &str,
        clock: RecordingClock,
    ) -> Result<(), RecordingError> {
        let known = *self.clock.get_or_insert(clock);
        if known == clock {
            return Ok(());
        }
        let what = match (known, clock) {
            (RecordingClock::Wall { .. }, RecordingClock::Wall { zoneless }) => {
                let (here, before) = if zoneless {
                    ("has none", "have a time zone")
                } else {
                    ("has one", "have no time zone")
                };
                format!("times before it {before}, this one {here}")
            }
            _ => "some of its times are dates, others count from a beginning of their own".into(),
        };
        Err(RecordingError {
            line,
            column: (!column.is_empty()).then(|| column.to_owned()),
            what,
            hint: Some("write all times alike, such as 2026-07-14T09:00:00Z"),
        })
    }

    pub(super) fn push_gpu(
        &mut self,
        metric: RecordedMetric,
        subject: &Subject,
        at_ns: i64,
        value: f64,
        at: Option<(usize, &str)>,
    ) -> Result<(), RecordingError> {
        let mut of = format!("GPU {}", subject.short());
        if let Some(instance) = &subject.instance {
            of = format!("{of} {instance}");
        }
        // An instance is not its GPU.
        let gpu = subject.instance.is_none().then(|| subject.gpu.clone());
        self.push(metric, (of, gpu), at_ns, value, at)
    }

    /// Adds a value; `at` is its line and the column of its time, where there are lines.
    pub(super) fn push(
        &mut self,
        metric: RecordedMetric,
        (of, gpu): (String, Option<GpuIdentity>),
        at_ns: i64,
        value: f64,
        at: Option<(usize, &str)>,
    ) -> Result<(), RecordingError> {
        let key = (format!("{}/{}", metric.group().name(), metric.name()), of);
        let place = if let Some(place) = self.places.get(&key) {
            *place
        } else {
            if self.series.len() >= MOST_SERIES {
                self.beyond += 1;
                return Ok(());
            }
            self.series.push(RecordedSeries {
                metric,
                gpu,
                of: key.1.clone(),
                samples: Vec::new(),
            });
            self.places.insert(key, self.series.len() - 1);
            self.series.len() - 1
        };
        let Some(series) = self.series.get_mut(place) else {
            return Ok(());
        };
        if let Some(last) = series.samples.last()
            && last.at_ns > at_ns
        {
            let back = last.at_ns.saturating_sub(at_ns) as f64 * 1e-9;
            let of = if series.of.is_empty() {
                String::new()
            } else {
                format!(" of {}", series.of)
            };
            let what = match self.clock {
                Some(RecordingClock::Steps) => {
                    format!("step {at_ns}{of} stands after step {}", last.at_ns)
                }
                _ => format!("its time lies {back} s before that of the row before{of}"),
            };
            let (line, column) = at.map_or((None, ""), |(line, column)| (Some(line), column));
            return Err(RecordingError {
                line,
                column: (!column.is_empty()).then(|| column.to_owned()),
                what,
                hint: Some(
                    "put rows into order of time, and recordings of several hosts or runs into files of their own",
                ),
            });
        }
        series.samples.push(RecordedSample { at_ns, value });
        Ok(())
    }

    /// Adds series that are whole, each in order of time.
    pub(super) fn whole(&mut self, series: RecordedSeries) {
        if self.series.len() < MOST_SERIES {
            self.series.push(series);
        } else {
            self.beyond += 1;
        }
    }

    pub(super) fn finish(mut self, form: String) -> Recording {
        if self.beyond > 0 {
            let what = format!("only its first {MOST_SERIES} series are read");
            self.notes.push(what);
        }
        self.series.retain(|one| !one.samples.is_empty());
        Recording {
            form,
            clock: self
                .clock
                .unwrap_or(RecordingClock::Wall { zoneless: false }),
            series: self.series,
            notes: self.notes,
        }
    }
}
