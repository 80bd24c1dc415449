//! Planes of TensorFlow and JAX.

use crate::mirror::{forms, written};
use gpuwise_domain::profile::sources::{LineSummary, PlaneFigures, PlaneSummary, PlanesSource};

written! {
    /// Planes of TensorFlow or JAX, in picoseconds.
    pub(super) PlanesDocument = |planes: &PlanesSource| {
        /// Bytes of the file.
        bytes: u64 = planes.byte_count,
        n_planes: usize = planes.planes.len(),
        device_planes: Vec<PlaneDocument> = forms(planes.planes.iter().filter(|plane| plane.is_device)),
        other_planes: Vec<PlaneDocument> = forms(planes.planes.iter().filter(|plane| !plane.is_device)),
    }
}

written! {
    PlaneDocument = |plane: &PlaneSummary| {
        id: i64 = plane.id,
        name: String = plane.name.clone(),
        n_lines: u64 = plane.line_count,
        n_event_metadata: u64 = plane.event_name_count,
        #[serde(flatten)]
        figures: PlaneFiguresDocument = (&plane.figures).into(),
        /// Of devices alone.
        #[serde(skip_serializing_if = "Option::is_none")]
        lines: Option<Vec<LineDocument>> = plane.is_device.then(|| forms(&plane.lines)),
        /// Names of work of devices: name, count, summed picoseconds; the longest five.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<Vec<Object>>)]
        top5: Option<Vec<(String, u64, i128)>> = plane.is_device.then(|| plane.top.clone()),
    }
}

written! {
    LineDocument = |line: &LineSummary| {
        id: i64 = line.id,
        name: String = line.name.clone(),
        timestamp_ns: i64 = line.timestamp_ns,
        #[serde(flatten)]
        figures: PlaneFiguresDocument = (&line.figures).into(),
    }
}

written! {
    PlaneFiguresDocument = |figures: &PlaneFigures| {
        events: u64 = figures.event_count,
        zero_duration: u64 = figures.zero_duration_count,
        /// Aggregates of several occurrences.
        without_start: u64 = figures.without_start_count,
        #[schema(value_type = i64)]
        sum_ps: i128 = figures.sum_ps,
        #[schema(value_type = i64)]
        busy_union_ps: i128 = figures.busy_ps,
        #[schema(value_type = i64)]
        span_ps: i128 = figures.span_ps,
        #[schema(value_type = Option<i64>)]
        first_start_ps: Option<i128> = figures.first_start_ps,
    }
}
