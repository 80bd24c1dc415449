//! Metrics that servers keep of themselves: Prometheus' text form, and what engines mean by their
//! names.
//!
//! ```
//! use gpuwise_read::metrics::{observe, parse};
//! let page = parse(
//!     "# TYPE vllm:request_prompt_tokens histogram\n\
//!      vllm:request_prompt_tokens_bucket{model_name=\"m\",le=\"500\"} 6\n\
//!      vllm:request_prompt_tokens_bucket{model_name=\"m\",le=\"+Inf\"} 8\n\
//!      vllm:request_prompt_tokens_sum{model_name=\"m\"} 4000\n\
//!      vllm:request_prompt_tokens_count{model_name=\"m\"} 8\n",
//! )
//! .unwrap();
//! let observed = observe(&page, None).unwrap();
//! assert_eq!(observed.requests, 8.0);
//! assert_eq!(observed.input.unwrap().mean(), Some(500.0));
//! ```

mod counts;
mod exposition;
mod histogram;
mod observed;
mod prometheus;
mod vocabulary;

pub use counts::{Burstiness, burstiness, hourly};
pub use exposition::{
    Exposition, ExpositionError, Kind, LARGEST_TEXT, Lenient, Sample, parse, parse_leniently,
};
pub use histogram::{Distribution, FRACTIONS, Histogram, Quantile};
pub use observed::{Observed, ObservedError, observe};
pub use prometheus::{AnswerError, QuerySeries, histogram as histogram_of, read_answer};
pub use vocabulary::{Quantity, VOCABULARIES, Vocabulary};
