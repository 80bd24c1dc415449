//! Flags of `gpuwise operators`.

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum OperatorsCommand {
    /// Say how long measured or planned operators take, row by row
    ///
    /// Reads a CSV file with the columns of the table (plain or gzip): system, engine, version, kernel
    /// and the sizes. Writes every row with predicted_ms, low_ms, high_ms (a range that holds 80 % of
    /// measured values) and basis: the evidence for the answer.
    ///
    /// Exit code 0: answered. 2: the file cannot be read.
    Predict(OperatorsPredict),
    /// Draw what share of a GPU's peaks an operator reaches, against its size
    ///
    /// The share is of what bounds it: the dense peak, the memory's bandwidth or the link between GPUs;
    /// the size is that of one typical shape: tokens, sequences or bytes of a message. Where nothing was
    /// measured on this GPU, the curve is carried from the nearest that was, and marked as extrapolated.
    ///
    /// Exit code 0: drawn. 2: the GPU or the operator is not known.
    Show(OperatorsShow),
    /// Fit the operator functions to measured times
    ///
    /// Reads the tables of a directory by their names (gemm.csv.gz and so on) and writes the functions,
    /// with ranges from shapes and GPUs that were kept out in turn. The same tables give the same text.
    ///
    /// Exit code 0: written. 2: a table cannot be read.
    Fit(OperatorsFit),
    /// Say how far rows that were kept out of a fit are met: shapes, and whole GPUs
    ///
    /// Exit code 0: judged. 2: a table cannot be read.
    Check(OperatorsCheck),
}

#[derive(Debug, Args)]
pub struct OperatorsPredict {
    /// The rows (CSV, plain or gzip; - for standard input)
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Whose columns these are: gemm, moe, ...
    #[arg(long, value_name = "TABLE")]
    pub table: String,
    /// Write the answers here [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct OperatorsFit {
    /// Where the tables are
    #[arg(value_name = "DIR")]
    pub tables: PathBuf,
    /// Write the functions here
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// Only these tables; what others give is taken over from what is known
    #[arg(long, value_name = "TABLE", value_delimiter = ',')]
    pub only: Vec<String>,
}

/// What is kept out of a fit to judge it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KeepOut {
    /// Shapes, on every GPU
    Shapes,
    /// All shapes of models, where the table has such
    Models,
    /// GPUs, one by one
    Gpus,
}

#[derive(Debug, Args)]
pub struct OperatorsCheck {
    /// Where the tables are
    #[arg(value_name = "DIR")]
    pub tables: PathBuf,
    /// Only these tables
    #[arg(long, value_name = "TABLE", value_delimiter = ',')]
    pub only: Vec<String>,
    /// What is kept out [default: each in turn]
    #[arg(long, value_enum, value_name = "WHAT", value_delimiter = ',')]
    pub keep_out: Vec<KeepOut>,
    /// A line for each engine and format, not for each GPU alone
    #[arg(long)]
    pub detailed: bool,
}

#[derive(Debug, Args)]
pub struct OperatorsShow {
    /// GPU of the catalogue whose curve is drawn, such as H100
    #[arg(value_name = "GPU")]
    pub gpu: String,
    /// The operator, as `operators predict --table` names it: gemm, moe, attention_context,
    /// attention_generation, attention_encoder, mla, mla_module, mla_bmm, comm_nccl, comm_allreduce,
    /// comm_moe
    #[arg(value_name = "OPERATOR")]
    pub operator: String,
    /// Engine whose kernels are meant: vllm, sglang or trtllm
    #[arg(long, default_value = "vllm", value_name = "ENGINE")]
    pub engine: String,
    /// Draw it into a file (SVG)
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}
