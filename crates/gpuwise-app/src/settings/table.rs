//! Flags of `gpuwise table`.

use super::TermsName;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Table {
    /// Sizes, such as 8b, for which a model of the catalogue stands, or models by name
    #[arg(
        long,
        value_name = "SIZES",
        value_delimiter = ',',
        default_value = "8b,70b,405b"
    )]
    pub models: Vec<String>,
    /// GPUs to count in
    #[arg(
        long,
        value_name = "GPU",
        value_delimiter = ',',
        default_value = "H100 SXM5 80GB"
    )]
    pub gpu: Vec<String>,
    /// Weight formats in service
    #[arg(
        long,
        value_name = "FORMATS",
        value_delimiter = ',',
        default_value = "bf16,fp8,int4"
    )]
    pub precision: Vec<String>,
    /// Tokens of a request, prompt and answer together
    #[arg(
        long,
        value_name = "TOKENS",
        value_delimiter = ',',
        default_value = "8192"
    )]
    pub context: Vec<String>,
    /// Concurrent requests
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,32")]
    pub concurrency: Vec<String>,
    /// Ways to train: full, lora, qlora; none leaves training out
    #[arg(
        long,
        value_name = "WAYS",
        value_delimiter = ',',
        default_value = "full,lora,qlora"
    )]
    pub method: Vec<String>,
    /// Tokens of a sequence in training
    #[arg(long, value_name = "TOKENS", default_value = "4096")]
    pub sequence: String,
    /// Format of the key-value cache, such as fp16 or fp8
    #[arg(long, value_name = "FORMAT")]
    pub kv: Option<String>,
    /// vllm, sglang, trtllm, llamacpp or transformers, with its release if need be: vllm@0.20
    #[arg(long, value_name = "NAME[@RELEASE]")]
    pub engine: Option<String>,
    /// Under which terms GPUs are priced
    #[arg(long, value_enum, default_value_t = TermsName::OnDemand)]
    pub terms: TermsName,
    /// A price list of one's own (CSV with the columns of offers)
    #[arg(long, value_name = "FILE")]
    pub prices: Vec<PathBuf>,
    /// Draw memory against model size into an SVG file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write a report into one self-contained HTML file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}
