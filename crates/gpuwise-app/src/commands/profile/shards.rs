//! `gpuwise profile --each --shard`: many readers of the same files, and the job that runs them.

use super::Flags;
use crate::{
    commands::{Context, Exit},
    error::Problem,
    profiles::{ShardSpec, bucket},
};
use gpuwise_view::profile::shards::{Container, ShardedJob, Volume};
use std::path::Path;

const HEADING: &str = "Many readers";

/// What looks at one profile, which many readers do not.
const ALONE: [&str; 6] = ["explain", "compat", "part", "written", "beside", "layouts"];

#[derive(Debug, Clone, clap::Args)]
pub(super) struct ShardFlags {
    /// Read only the files of one shard: I/N with I from 0 to N - 1, or auto/N, which takes I from the
    /// job that runs it (JOB_COMPLETION_INDEX of Kubernetes, SLURM_ARRAY_TASK_ID of Slurm)
    #[arg(long, value_name = "I/N", requires = "each", conflicts_with_all = ALONE, help_heading = HEADING)]
    pub shard: Option<ShardSpec>,
    /// Instead of reading, print the job that reads these files in N shards (--shard auto/N)
    #[arg(long, value_enum, value_name = "FORM", requires_all = ["shard", "save"], conflicts_with_all = ALONE, help_heading = HEADING)]
    emit: Option<JobForm>,
    /// The image of the job's containers; gpuwise is in it
    #[arg(long, value_name = "IMAGE", requires = "emit", conflicts_with_all = ALONE, help_heading = HEADING)]
    image: Option<String>,
    /// The claim of the volume with the files; it is mounted where the named directory is
    #[arg(long, value_name = "NAME", requires = "emit", conflicts_with_all = ALONE, help_heading = HEADING)]
    claim: Option<String>,
}

/// What runs the shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum JobForm {
    /// An indexed Job of Kubernetes
    K8s,
    /// A script for sbatch, an array job
    Slurm,
}

/// Prints the job, where one is asked for.
///
/// # Errors
/// When it is not told where files, image or database of the job are.
pub(super) fn emitted(context: &Context, flags: &Flags) -> anyhow::Result<Option<Exit>> {
    let sharding = &flags.sharding;
    let (Some(form), Some(shard)) = (sharding.emit, sharding.shard) else {
        return Ok(None);
    };
    let (words, database) = (words(flags, shard)?, database(flags)?);
    let job = ShardedJob {
        words: &words,
        count: shard.count.get(),
        database: database.as_deref(),
    };
    let text = match form {
        JobForm::K8s => job.kubernetes(&container(flags)?),
        JobForm::Slurm => {
            if sharding.image.is_some() || sharding.claim.is_some() {
                return Err(Problem::new("--image and --claim are for --emit k8s")
                    .hint("a job of Slurm runs the gpuwise of its node on files where they lie")
                    .into());
            }
            job.slurm()
        }
    };
    context.data(&text)?;
    Ok(Some(Exit::Yes))
}

/// The command of a shard.
fn words(flags: &Flags, shard: ShardSpec) -> anyhow::Result<Vec<String>> {
    if !shard.is_auto() {
        return Err(Problem::new("--emit writes one job for all shards")
            .hint(format!("write --shard auto/{}", shard.count))
            .into());
    }
    let mut words: Vec<String> = ["gpuwise", "profile"].map(Into::into).into();
    for file in &flags.files {
        words.push(file.display().to_string());
    }
    words.extend(["--each", "--save", "--shard"].map(Into::into));
    words.push(format!("auto/{}", shard.count));
    let mut add = |flag: &str, value: String| words.extend([flag.to_owned(), value]);
    if let Some(window) = flags.window {
        let milliseconds = |ns: i64| ns as f64 / 1e6;
        let (from, to) = (milliseconds(window.start_ns), milliseconds(window.end_ns));
        add("--window", format!("{from}..{to}"));
    }
    if let Some(device) = flags.device {
        add("--device", device.to_string());
    }
    if let Some(gpu) = &flags.gpu {
        add("--gpu", gpu.clone());
    }
    if let Some(name) = &flags.keep.name {
        add("--name", name.clone());
    }
    for (name, value) in &flags.keep.labels {
        add("--label", format!("{name}={value}"));
    }
    Ok(words)
}

/// The address of a database that all shards reach, unless it has a secret in it.
fn database(flags: &Flags) -> anyhow::Result<Option<String>> {
    let Some(address) = flags.keep.database.address() else {
        return Ok(None);
    };
    if !address.starts_with("postgres") {
        return Err(Problem::new(format!(
            "{}: shards on other machines do not share an SQLite file",
            flags.keep.database.shown()
        ))
        .hint("name a server: --database postgres://user@host/name")
        .into());
    }
    let open = flags.keep.database.shown() == address;
    Ok(open.then(|| address.to_owned()))
}

fn container(flags: &Flags) -> anyhow::Result<Container<'_>> {
    let missing = |flag: &str, what: &str| {
        Problem::new(format!("--emit k8s: {flag} is missing")).hint(what.to_owned())
    };
    let image = flags.sharding.image.as_deref();
    Ok(Container {
        image: image.ok_or_else(|| missing("--image", "name an image with gpuwise in it"))?,
        volume: volume(flags, missing)?,
    })
}

/// The volume with the files; none of what lies in buckets.
fn volume(
    flags: &Flags,
    missing: impl Fn(&str, &str) -> Problem,
) -> anyhow::Result<Option<Volume<'_>>> {
    let claim = flags.sharding.claim.as_deref();
    if flags.files.iter().all(|file| bucket::is_in_one(file)) {
        return match claim {
            None => Ok(None),
            Some(_) => {
                Err(Problem::new("--claim is for files in a volume, not in a bucket").into())
            }
        };
    }
    let folder = match flags.files.as_slice() {
        [one] => one.to_str().filter(|_| Path::new(one).is_absolute()),
        _ => None,
    };
    Ok(Some(Volume {
        claim: claim.ok_or_else(|| {
            missing(
                "--claim",
                "name the PersistentVolumeClaim that holds the files",
            )
        })?,
        folder: folder.ok_or_else(|| {
            Problem::new("--emit k8s: files are named as one directory, by its whole path")
                .hint("such as /traces: the volume is mounted there")
        })?,
    }))
}
