//! Planes of TensorFlow and JAX.

use gpuwise_domain::profile::sources::{LineSummary, PlaneFigures, PlaneSummary, PlanesSource};
use serde::Serialize;
use utoipa::ToSchema;

/// Planes of TensorFlow or JAX, in picoseconds.
#[derive(Serialize, ToSchema)]
pub(super) struct PlanesDocument {
    /// Bytes of the file.
    bytes: u64,
    n_planes: usize,
    device_planes: Vec<PlaneDocument>,
    other_planes: Vec<PlaneDocument>,
}

#[derive(Serialize, ToSchema)]
struct PlaneDocument {
    id: i64,
    name: String,
    n_lines: u64,
    n_event_metadata: u64,
    #[serde(flatten)]
    figures: PlaneFiguresDocument,
    /// Of devices alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<Vec<LineDocument>>,
    /// Names of work of devices: name, count, summed picoseconds; the longest five.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    top5: Option<Vec<(String, u64, i128)>>,
}

#[derive(Serialize, ToSchema)]
struct LineDocument {
    id: i64,
    name: String,
    timestamp_ns: i64,
    #[serde(flatten)]
    figures: PlaneFiguresDocument,
}

#[derive(Serialize, ToSchema)]
struct PlaneFiguresDocument {
    events: u64,
    zero_duration: u64,
    /// Aggregates of several occurrences.
    without_start: u64,
    #[schema(value_type = i64)]
    sum_ps: i128,
    #[schema(value_type = i64)]
    busy_union_ps: i128,
    #[schema(value_type = i64)]
    span_ps: i128,
    #[schema(value_type = Option<i64>)]
    first_start_ps: Option<i128>,
}

impl From<&PlaneFigures> for PlaneFiguresDocument {
    fn from(figures: &PlaneFigures) -> Self {
        Self {
            events: figures.event_count,
            zero_duration: figures.zero_duration_count,
            without_start: figures.without_start_count,
            sum_ps: figures.sum_ps,
            busy_union_ps: figures.busy_ps,
            span_ps: figures.span_ps,
            first_start_ps: figures.first_start_ps,
        }
    }
}

impl From<&PlaneSummary> for PlaneDocument {
    fn from(plane: &PlaneSummary) -> Self {
        let line = |line: &LineSummary| LineDocument {
            id: line.id,
            name: line.name.clone(),
            timestamp_ns: line.timestamp_ns,
            figures: (&line.figures).into(),
        };
        Self {
            id: plane.id,
            name: plane.name.clone(),
            n_lines: plane.line_count,
            n_event_metadata: plane.event_name_count,
            figures: (&plane.figures).into(),
            lines: plane
                .is_device
                .then(|| plane.lines.iter().map(line).collect()),
            top5: plane.is_device.then(|| plane.top.clone()),
        }
    }
}

impl From<&PlanesSource> for PlanesDocument {
    fn from(planes: &PlanesSource) -> Self {
        let of = |device: bool| {
            let planes = planes.planes.iter();
            let planes = planes.filter(|plane| plane.is_device == device);
            planes.map(PlaneDocument::from).collect()
        };
        Self {
            bytes: planes.byte_count,
            n_planes: planes.planes.len(),
            device_planes: of(true),
            other_planes: of(false),
        }
    }
}
