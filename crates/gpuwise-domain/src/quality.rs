//! What a lower precision costs in quality, as published evaluations and one's own measurements found.

use alloc::string::String;

/// One evaluation of a quantized model against its baseline.
#[derive(Debug, Clone, PartialEq)]
pub struct QualityRow {
    pub model: String,
    pub family: String,
    /// Its parameters, in 10⁹.
    pub parameters_b: f64,
    /// The scheme, such as `fp8-dynamic`.
    pub scheme: String,
    pub evaluation: String,
    pub baseline: Option<f64>,
    /// The quantized model's score.
    pub quantized: Option<f64>,
    /// Loss in percent of the baseline; positive is worse.
    pub loss_percent: f64,
    pub source: String,
    /// The user's own weights that were measured, by the name of their file or directory, or under which they were
    /// served; `None`: a published evaluation of somebody's weights of this scheme.
    pub checkpoint: Option<String>,
    /// Bytes of their tensors; `None`: they were served, and nobody read them.
    pub checkpoint_bytes: Option<u64>,
}
