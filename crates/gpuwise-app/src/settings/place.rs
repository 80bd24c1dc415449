//! Flags of `gpuwise place`, `gpuwise lint` and `gpuwise capacity`.

use clap::Args;
use gpuwise_domain::placement::{Backfill, Order};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Place {
    /// The fleet (TOML): nodes, GPUs, links, queues
    #[arg(value_name = "FLEET")]
    pub fleet: PathBuf,
    /// What is asked of it, and what runs already (TOML)
    #[arg(value_name = "JOBS")]
    pub jobs: PathBuf,
    #[command(flatten)]
    pub how: HowFlags,
    /// Say of this job why it waits, and everything that would help; or where it runs and what was
    /// weighed
    #[arg(long, value_name = "JOB")]
    pub why: Vec<String>,
    /// Plan as if: +2xL40S a node with two more, +n3 another node like n3, -n3 without node n3
    #[arg(
        long = "what-if",
        value_name = "CHANGE",
        allow_hyphen_values = true,
        conflicts_with = "save"
    )]
    pub what_if: Vec<String>,
    /// Write the plan into a file, to be checked with `gpuwise lint`
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Draw the fleet as it is with the plan (SVG)
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write the placement as one HTML page: the picture, what is placed, what is pending and why
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Show what each placement weighed
    #[arg(long)]
    pub explain: bool,
    /// Jobs that wait for which fixes are looked for; --why looks for its own
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub fixes: usize,
}

/// How is decided.
#[derive(Debug, Clone, Args)]
pub struct HowFlags {
    /// How nodes are chosen, or a policy file that says all of how is decided
    #[arg(long, value_name = "NAME|FILE", default_value = "gpuwise", long_help = policies())]
    pub policy: String,
    /// Preempt, migrate or shrink jobs that allow it, to make room for those of higher priority
    #[arg(long)]
    pub preempt: bool,
    /// Who goes first: fifo, priority, shortest, least-served, deadline, fair-share or fair-tree [default: as
    /// the fleet file says, else fair-share where queues have weights, else priority]
    ///
    /// fair-share: the queue with the least share beside its weight, in it by priority. fair-tree: level by
    /// level the queue that has used least beside its weight, as Slurm's does. All but fifo and these two
    /// look at the priority of jobs first; of equals the one that waits longest goes first.
    #[arg(long, value_name = "ORDER", value_parser = order)]
    pub order: Option<Order>,
    /// Who may go ahead of one who finds no place: none, any, easy or conservative [default: as the
    /// fleet file says, else any]
    ///
    /// easy: who does not delay the first, whose start is reserved by the expected ends of those who run.
    /// conservative: who delays nobody before it. Jobs of unknown duration delay everybody.
    #[arg(long, value_name = "HOW", value_parser = backfill)]
    pub backfill: Option<Backfill>,
    /// Who has waited so long goes before all others, and its start is reserved, such as 6h
    /// [default: as the fleet file says, else never]
    #[arg(long, value_name = "TIME")]
    pub starvation: Option<gpuwise_units::Nanoseconds>,
}

impl HowFlags {
    /// A policy, by its name or file, and nothing else.
    pub fn of_policy(policy: &str) -> Self {
        Self {
            policy: policy.to_owned(),
            preempt: false,
            order: None,
            backfill: None,
            starvation: None,
        }
    }
}

fn policies() -> String {
    let lines = gpuwise_sched::policy::policies().iter();
    let lines: Vec<String> = lines
        .map(|policy| format!("- {}: {}", policy.name, policy.about))
        .collect();
    let head = "How nodes are chosen, or a policy file (TOML or JSON; `gpuwise example policy.toml`) that says \
                all of how is decided. Flags go above it.\n\nThe node that fits …";
    format!("{head}\n{}", lines.join("\n"))
}

fn order(text: &str) -> Result<Order, String> {
    let found = Order::ALL.into_iter().find(|one| one.name() == text);
    found.ok_or_else(|| format!("expected one of {}", Order::ALL.map(Order::name).join(", ")))
}

fn backfill(text: &str) -> Result<Backfill, String> {
    let found = Backfill::ALL.into_iter().find(|one| one.name() == text);
    found.ok_or_else(|| {
        let words = Backfill::ALL.map(Backfill::name).join(", ");
        format!("expected one of {words}")
    })
}

#[derive(Debug, Args)]
pub struct Lint {
    /// A saved plan (`gpuwise place … --save`)
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,
    /// Check it against this fleet [default: the one that the plan was made for]
    #[arg(long, value_name = "FILE", requires = "jobs")]
    pub fleet: Option<PathBuf>,
    /// Check it against these jobs
    #[arg(long, value_name = "FILE", requires = "fleet")]
    pub jobs: Option<PathBuf>,
    /// Jobs that the plan may preempt, move or reclaim at most
    #[arg(long, value_name = "N")]
    pub max_disruptions: Option<u32>,
    /// GPU time of others that it may lose at most, such as 2h
    #[arg(long, value_name = "TIME")]
    pub max_lost: Option<gpuwise_units::Nanoseconds>,
}

#[derive(Debug, Args)]
pub struct Capacity {
    /// The fleet (TOML)
    #[arg(value_name = "FLEET")]
    pub fleet: PathBuf,
    /// What is asked of it (TOML)
    #[arg(value_name = "JOBS")]
    pub jobs: PathBuf,
    #[command(flatten)]
    pub how: HowFlags,
    /// Nodes that may be bought at most
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub max_nodes: u32,
}
