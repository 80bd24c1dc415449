//! One module for each reader of foreign bytes.

mod access_log;
mod catalogue;
mod compressed;
mod config_json;
mod document;
mod fabric;
mod fleet_file;
mod flight_recorder;
mod gguf_header;
mod host;
mod kernel_counters;
mod kineto;
mod launch;
mod metrics;
mod pickle;
mod questions;
mod recording;
mod results;
mod safetensors_header;
mod scaling;
mod stream;
mod telemetry;
mod trace;
mod trace_viewer;
mod usage;
mod workload;
mod xplane;

/// A reader under test: it panics where it must not be so.
type Check = fn(&[u8]);

/// Every target, by name.
pub(crate) const TARGETS: &[(&str, Check)] = &[
    ("access_log", access_log::check),
    ("catalogue", catalogue::check),
    ("compressed", compressed::check),
    ("config_json", config_json::check),
    ("document", document::check),
    ("fabric", fabric::check),
    ("fleet_file", fleet_file::check),
    ("flight_recorder", flight_recorder::check),
    ("gguf_header", gguf_header::check),
    ("host", host::check),
    ("kernel_counters", kernel_counters::check),
    ("kineto", kineto::check),
    ("launch", launch::check),
    ("metrics", metrics::check),
    ("pickle", pickle::check),
    ("questions", questions::check),
    ("recording", recording::check),
    ("results", results::check),
    ("safetensors_header", safetensors_header::check),
    ("scaling", scaling::check),
    ("stream", stream::check),
    ("telemetry", telemetry::check),
    ("trace", trace::check),
    ("trace_viewer", trace_viewer::check),
    ("usage", usage::check),
    ("workload", workload::check),
    ("xplane", xplane::check),
];
