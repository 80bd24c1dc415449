//! What was recorded beside a trace.

use crate::{
    mirror::{forms, written},
    quantities::Real,
};
use gpuwise_domain::profile::joined::{Joined, JoinedFile, JoinedSeries};

written! {
    /// Files that were laid on the time axis of the trace; times are nanoseconds from its first GPU work.
    #[serde(deny_unknown_fields)]
    pub(crate) JoinedDocument = |joined: &Joined| {
        /// From the first GPU work of all ranks to the last.
        span_ns: i64 = joined.span_ns,
        /// The first GPU work in nanoseconds since 1970, where known.
        started_at_ns: Option<i64> = joined.started_at_ns,
        files: Vec<JoinedFileDocument> = forms(&joined.files),
    }
}

written! {
    /// One of them.
    #[serde(deny_unknown_fields)]
    pub(crate) JoinedFileDocument = |file: &JoinedFile| {
        /// The file as the user named it.
        file: String = file.file.clone(),
        /// Its form (`nvidia-smi --query --format=csv`, `sadf -d`, `JSON lines`).
        form: String = file.form.clone(),
        /// How it was laid beside the trace: `wall_clock`, `offset` or `steps`.
        joined_by: String = file.by.name().to_owned(),
        /// What `--offset` added to its times.
        offset_ns: i64 = file.offset_ns,
        /// Its first sample.
        start_ns: i64 = file.start_ns,
        /// Its last.
        end_ns: i64 = file.end_ns,
        /// How much of the trace's span lies between the two.
        overlap_ns: i64 = file.overlap_ns,
        series: Vec<JoinedSeriesDocument> = forms(&file.series),
        /// What is missing in it, in words.
        notes: Vec<String> = file.notes.clone(),
    }
}

written! {
    /// A series within the span of the trace.
    #[serde(deny_unknown_fields)]
    pub(crate) JoinedSeriesDocument = |one: &JoinedSeries| {
        /// `gpu`, `host` or `application`.
        group: String = one.series.metric.group().name().to_owned(),
        /// What it is of (`sm_active`, `cpu_util`, `loss`), or the name that the file has for it.
        metric: String = one.series.metric.name().to_owned(),
        /// Its unit; empty where none is known.
        unit: String = one.series.metric.unit().to_owned(),
        /// Of what (`GPU 0`, `node1 eth0`); empty where the file does not say.
        of: String = one.series.of.clone(),
        /// The file of the trace whose device it is, from 0 on, where that can be told.
        trace_file: Option<u64> = one.device.map(|device| device.timeline as u64),
        /// Its number in that file.
        device: Option<i64> = one.device.map(|device| device.device),
        /// Samples of the file in all.
        samples: u64 = one.series.samples.len() as u64,
        /// Of these, within the span; 0 where it lies between two, whose line counts.
        samples_within: Option<u64> = one.within.map(|within| within.samples),
        mean: Option<Real> = one.within.map(|within| Real(within.mean)),
        least: Option<Real> = one.within.map(|within| Real(within.least)),
        most: Option<Real> = one.within.map(|within| Real(within.most)),
    }
}
