//! Flags of `gpuwise replay`.

use clap::{Args, ValueEnum};
use gpuwise_lab::schedulers::philly::Discipline;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Replay {
    /// Trace: openb, openb:VARIANT, genai, gavel, gavel:continuous-single@RATE, philly, philly:CLUSTER, a
    /// directory or file of one of these forms, or what ran on your own cluster
    ///
    /// openb is Alibaba's placement benchmark, genai a day of its image generation on fewer GPUs. philly
    /// is Microsoft's training jobs, each virtual cluster (`vc`) by itself. gavel is the published trace of 96 training jobs over 8 V100, 16 P100 and 24 K80, replayed in
    /// rounds of 360 s; gavel:continuous-single@3.2 and gavel:continuous-multiple@1.0 are the sweeps at
    /// so many jobs an hour over 36 GPUs of each kind, of which jobs 4000 to 4999 are measured.
    ///
    /// Files are told by their header: a list of pods of openb with the orders beside it; gavel's
    /// job_id,arrival_s,job_type,scale_factor,total_steps,priority_weight, and PATH@RATE for its
    /// job_id,unit_arrival,…; philly's vc,job,submit_s,gpus,duration_s, with vc_nodes.csv beside it.
    ///
    /// What ran on your own cluster, with --fleet FILE: `sacct --parsable2` with JobID, Account, User,
    /// Submit, Start, ElapsedRaw, NNodes and AllocTRES; `kubectl get pods -A -o json`; files in the shape of
    /// Philly's, Helios' and Shockwave's traces. Or a job file (TOML), as `gpuwise place` takes them, whose jobs
    /// say when they were submitted and how long they take.
    ///
    /// Traces are looked for in `fleet` under $GPUWISE_DATA, else under ../shared/data.
    #[arg(value_name = "NAME|PATH")]
    pub trace: String,
    /// With `log`: what `gpuwise store export` wrote. The leases of a broker on its fleet: as recorded, under the
    /// rules that it had, and under each --policy
    #[arg(value_name = "FILE")]
    pub file: Option<std::path::PathBuf>,
    /// Policies, side by side; on your own cluster names or policy files [default: all; there gpuwise]
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        long_help = policies()
    )]
    pub policy: Vec<String>,
    /// Seeds of the order of arrival, or of what policies draw: 42..46, or 42,44
    ///
    /// By default all orders that a trace has, and seed 0 where policies draw.
    #[arg(long, value_name = "SEEDS")]
    pub seeds: Option<String>,
    /// Variants of the trace [default: default, or all of a directory that has none of this name]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub variant: Vec<String>,
    /// Say how many decisions were made in a second
    #[arg(long)]
    pub timing: bool,
    /// openb: hold every plan, and the fleet after each, against an independent linter; slow
    ///
    /// Nothing else changes: `plans_hash`, in CSV and JSON, is the same with and without it.
    #[arg(long, conflicts_with = "timing")]
    pub lint: bool,
    /// GPUs on which the serving day (genai) is run [default: the fewest on which nobody waits longer]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub gpus: Option<u32>,
    /// Base models that a host of 8 GPUs keeps in its memory on the serving day [default: 14]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub host_models: Option<u32>,
    /// Your own cluster: its fleet file. Rounds: GPUs of each kind [default: that of the published runs]
    #[arg(long, value_name = "FILE|COUNTxKIND,…")]
    pub fleet: Option<String>,
    /// Rounds: file of steps per second by kind of GPU, program and partner, as Gavel publishes them
    /// (JSON), or worker_type,job_type,scale_factor,steps_per_second (CSV), which says nothing of sharing
    /// [default: gavel/simulation_throughputs.json.gz]
    #[arg(long, value_name = "FILE")]
    pub speeds: Option<PathBuf>,
    /// Rounds: whether assignment-jct knows how many steps jobs still have to do
    #[arg(long, value_enum, default_value_t = Durations::Known)]
    pub durations: Durations,
    /// Rounds: assignment-jct and assignment-makespan let no two jobs share GPUs
    #[arg(long)]
    pub no_sharing: bool,
}

fn policies() -> String {
    let philly = Discipline::ALL.map(Discipline::name);
    format!(
        "Policies, side by side [default: all]\n\n\
         openb, those of `gpuwise place`: {}.\n\
         philly: {}.\n\
         genai: {}.\n\
         gavel: {}; names with -aware know that GPUs differ in speed.\n\
         Your own cluster: those of openb, and policy files.",
        gpuwise_sched::policy::names().join(", "),
        philly.join(", "),
        gpuwise_lab::schedulers::genai::NAMES.join(", "),
        gpuwise_lab::schedulers::rounds::names().join(", "),
    )
}

/// What is known of how long jobs take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Durations {
    Known,
    Unknown,
}
