//! Flags of diffusion, vision and embedding models.

use clap::Args;

/// What of language models makes no sense for them.
const OTHERS: [&str; 11] = [
    "rate",
    "burstiness",
    "concurrency",
    "isl",
    "prefix_hit",
    "trace",
    "workload",
    "from",
    "slo",
    "ttft",
    "tpot",
];

#[derive(Debug, Clone, Default, Args)]
pub struct MediaFlags {
    /// Pictures to make, such as 2/s or 500/h
    #[arg(long, value_name = "RATE", group = "media", conflicts_with_all = OTHERS)]
    pub images: Option<String>,
    /// Audio to write down, in hours an hour, such as 40h/h
    #[arg(long, value_name = "HOURS", group = "media", conflicts_with_all = OTHERS)]
    pub audio: Option<String>,
    /// Texts to embed, such as 300/s
    #[arg(long, value_name = "RATE", group = "media", conflicts_with_all = OTHERS)]
    pub texts: Option<String>,
    /// Pairs of query and document to judge, such as 50/s
    #[arg(long, value_name = "RATE", group = "media", conflicts_with_all = OTHERS)]
    pub pairs: Option<String>,
    /// Pictures, volumes, questions or users to judge, such as 1000/s
    #[arg(long, value_name = "RATE", group = "media", conflicts_with_all = OTHERS)]
    pub samples: Option<String>,
    /// Videos to make, such as 30/h
    #[arg(long, value_name = "RATE", group = "media", conflicts_with_all = OTHERS)]
    pub videos: Option<String>,
    /// From request to result, such as p95:8s or mean:2s
    #[arg(long, value_name = "TARGET", requires = "media")]
    pub latency: Option<String>,
    /// Pixels of a side, or width and height, such as 1024 or 1280x720
    #[arg(long, value_name = "N[xM]", requires = "media")]
    pub size: Option<String>,
    /// Frames of a video
    #[arg(long, value_name = "N", requires = "media")]
    pub frames: Option<u64>,
    /// Steps of denoising
    #[arg(long, value_name = "N", requires = "media")]
    pub steps: Option<u64>,
    /// Whether each step runs twice, with and without the prompt: on or off
    #[arg(long, value_name = "ON|OFF", value_parser = ["on", "off"], requires = "media")]
    pub guidance: Option<String>,
    /// Tokens of a text, a pair or a prompt
    #[arg(long, value_name = "TOKENS", requires = "media")]
    pub length: Option<String>,
    /// Tokens of the longest text: batches are padded to their longest [default: all of --length]
    #[arg(long, value_name = "TOKENS", requires = "length")]
    pub longest: Option<String>,
    /// Inputs of a batch at most
    #[arg(long, value_name = "N", requires = "media", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub batch: Option<u32>,
}
