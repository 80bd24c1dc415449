//! Flags of diffusion, vision and embedding models.

use clap::{Arg, Args};

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
#[command(mut_args(of_media))]
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
    #[command(flatten)]
    pub input: InputFlags,
    /// Steps of denoising
    #[arg(long, value_name = "N", requires = "media")]
    pub steps: Option<u64>,
    /// Whether each step runs twice, with and without the prompt: on or off
    #[arg(long, value_name = "ON|OFF", value_parser = ["on", "off"], requires = "media")]
    pub guidance: Option<String>,
    /// Tokens of the longest text: batches are padded to their longest [default: all of --length]
    #[arg(long, value_name = "TOKENS", requires = "length")]
    pub longest: Option<String>,
}

/// The size of an input says nothing where no rate of inputs is given.
fn of_media(flag: Arg) -> Arg {
    match flag.get_id().as_str() {
        "size" | "frames" | "length" | "batch" => flag.requires("media"),
        _ => flag,
    }
}

/// The size of an input, and how many are run at once.
#[derive(Debug, Clone, Default, Args)]
pub struct InputFlags {
    /// Pixels of a side, or width and height, such as 1024 or 1280x720
    #[arg(long, value_name = "N[xM]")]
    pub size: Option<String>,
    /// Frames of a video
    #[arg(long, value_name = "N")]
    pub frames: Option<u64>,
    /// Tokens of a text, a pair or a prompt
    #[arg(long, value_name = "TOKENS")]
    pub length: Option<String>,
    /// Inputs of a batch at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub batch: Option<u32>,
}

impl InputFlags {
    /// The first flag that is given.
    pub fn given(&self) -> Option<&'static str> {
        let all = [
            ("--size", self.size.is_some()),
            ("--frames", self.frames.is_some()),
            ("--length", self.length.is_some()),
            ("--batch", self.batch.is_some()),
        ];
        all.into_iter()
            .find_map(|(flag, given)| given.then_some(flag))
    }
}
