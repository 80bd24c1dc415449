//! Flags of `gpuwise fleet`.

use super::RedfishFlags;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum FleetCommand {
    /// Check a fleet file, and show what it describes
    ///
    /// Every problem with its line; then racks, nodes, GPUs with a mark for the state of each, and what
    /// may be a mistake. With --jobs the job file is checked, too, and who runs where is shown.
    ///
    /// Exit code 0: it is right. 2: it is not.
    Check(FleetCheck),
    /// Show how MIG can partition a GPU, and pack a mix of instances
    ///
    /// Every layout to which nothing can be added, by profiles and starts; how many layouts there are;
    /// or, with --pack, on how few GPUs a mix of instances fits and how each is partitioned.
    ///
    /// Exit code 0: shown, and all of a mix is packed. 1: the mix does not fit --boards. 2: the input is
    /// wrong.
    Mig(FleetMig),
    /// Make a fleet file from what tools say of nodes
    ///
    /// Reads nvidia-smi -q -x, nvidia-smi topo -m, kubectl get nodes -o json and scontrol show node
    /// --json, told by what is in them, and puts together what they say of the same node. nvidia-smi
    /// names no node: its outputs are of the node that the file is named after (gpu-01.xml, gpu-01.txt).
    /// What no tool said stands as a comment to be completed.
    ///
    /// With --kubeconfig, --context or --in-cluster the nodes are those of a live Kubernetes, GPUs that
    /// drivers offer by dynamic allocation included; --jobs writes who holds what and who waits, and what
    /// does not agree is told on standard error. With --watch the files are written again after each change,
    /// until it is interrupted; without --output it prints the changes.
    ///
    /// With --redfish hosts and pools of GPUs are those of a CompositionService: blocks of type Compute, blocks of
    /// one GPU, and zones. What it does not say stands as a comment.
    ///
    /// Exit code 0: written. 2: an output cannot be read, or the cluster not be asked.
    Import(FleetImport),
}

#[derive(Debug, Args)]
pub struct FleetCheck {
    /// The fleet (TOML)
    #[arg(value_name = "FLEET")]
    pub fleet: PathBuf,
    /// Jobs that run or wait on it (TOML)
    #[arg(long, value_name = "FILE")]
    pub jobs: Option<PathBuf>,
    /// Draw it into a file: racks, nodes, GPUs, slices, tenants (SVG)
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write it as a page: the picture and the tables (HTML)
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct FleetImport {
    /// Outputs of tools
    #[arg(value_name = "FILE", required_unless_present_any = ["kubeconfig", "context", "in_cluster", "redfish"])]
    pub files: Vec<PathBuf>,
    /// Ask the Kubernetes of this kubeconfig
    #[arg(long, value_name = "FILE", conflicts_with = "files")]
    pub kubeconfig: Option<PathBuf>,
    /// Ask the Kubernetes of this context, of --kubeconfig, KUBECONFIG or ~/.kube/config
    #[arg(long, value_name = "NAME", conflicts_with = "files")]
    pub context: Option<String>,
    /// Ask the Kubernetes that this runs in, by the service account of its pod
    #[arg(long, conflicts_with_all = ["files", "kubeconfig", "context"])]
    pub in_cluster: bool,
    /// Ask the Redfish service that composes hosts of pooled GPUs, such as `https://fabric.example:8443`
    #[arg(long, value_name = "URL", conflicts_with_all = ["files", "kubeconfig", "context", "in_cluster", "watch", "jobs"])]
    pub redfish: Option<String>,
    /// Pooled GPUs that a host can have at once: Redfish does not say it
    #[arg(long, value_name = "COUNT", requires = "redfish", conflicts_with_all = ["files", "kubeconfig", "context", "in_cluster", "watch", "jobs"], value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub slots: Option<u32>,
    #[command(flatten, next_help_heading = "Redfish")]
    pub how: RedfishFlags,
    /// Go on, and write anew after each change; without --output print changes
    #[arg(long, conflicts_with = "files")]
    pub watch: bool,
    /// Write who holds GPUs and who waits for them here, as a job file
    #[arg(long, value_name = "FILE", conflicts_with = "files")]
    pub jobs: Option<PathBuf>,
    /// The fleet's name
    #[arg(long, value_name = "NAME", default_value = "fleet")]
    pub name: String,
    /// Write the fleet file here [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct FleetMig {
    /// The GPU: a name of the catalogue, or of --mig-profiles
    #[arg(value_name = "GPU")]
    pub gpu: String,
    /// Which profiles: five (1g, 2g, 3g, 4g, 7g), base (and 1g with twice the memory), or all
    #[arg(long, value_enum, value_name = "SET", default_value = "five")]
    pub profiles: ProfilesFlag,
    /// Only count layouts, for every set of profiles
    #[arg(long, conflicts_with = "pack")]
    pub counts: bool,
    /// Pack these instances onto as few GPUs as possible, such as 3g.20gb=5,1g.5gb=12
    #[arg(long, value_name = "PROFILE=COUNT", value_delimiter = ',')]
    pub pack: Vec<String>,
    /// Pack as much as possible onto so many GPUs
    #[arg(long, value_name = "COUNT", requires = "pack", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub boards: Option<u32>,
    /// Profiles of boards of your own: a file of the form of mig_profiles.csv
    #[arg(long, value_name = "FILE")]
    pub mig_profiles: Option<PathBuf>,
}

/// Sets of MIG profiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProfilesFlag {
    /// One plain profile of each size
    Five,
    /// Every plain profile
    Base,
    /// Variants with media engines and graphics, too
    All,
}
