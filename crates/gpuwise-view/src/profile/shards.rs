//! Jobs that read many profiles in shards: an indexed Job of Kubernetes, an array job of Slurm.

use crate::launch::{shell::quoted, yaml};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Cores of each shard: files are read over all of them.
const CORES: u32 = 2;
/// Memory of each shard in GiB: 64 files of a few megabytes are held at once.
const MEMORY_GIB: u32 = 4;
/// How often a shard is tried again; what it had kept stays one run each.
const TRIES: u32 = 2;
const NAME: &str = "gpuwise-profile";

/// What is read in shards.
#[derive(Debug, Clone, Copy)]
pub struct ShardedJob<'a> {
    /// The command of each shard, which takes its own number from the job.
    pub words: &'a [String],
    pub count: u32,
    /// The address of the database, where nothing in it is secret.
    pub database: Option<&'a str>,
}

/// Where the files lie for the containers of a Job.
#[derive(Debug, Clone, Copy)]
pub struct Container<'a> {
    pub image: &'a str,
    /// Where they lie; a bucket needs no volume.
    pub volume: Option<Volume<'a>>,
}

#[derive(Debug, Clone, Copy)]
pub struct Volume<'a> {
    /// The claim of the volume that holds the files.
    pub claim: &'a str,
    /// The folder that the command reads, at which the volume is mounted.
    pub folder: &'a str,
}

impl ShardedJob<'_> {
    /// An indexed Job (`batch/v1`): each pod takes a shard by `JOB_COMPLETION_INDEX`. Source:
    /// kubernetes.io/docs/concepts/workloads/controllers/job.
    pub fn kubernetes(&self, container: &Container<'_>) -> String {
        let database = self.database.map_or_else(
            || {
                let key = json!({"name": "gpuwise-database", "key": "url"});
                json!({"name": "GPUWISE_DATABASE", "valueFrom": {"secretKeyRef": key}})
            },
            |address| json!({"name": "GPUWISE_DATABASE", "value": address}),
        );
        let mut comment = String::new();
        let mut secret = |name: &str, keys: &str| {
            let _ = writeln!(comment, "# kubectl create secret generic {name} {keys}");
        };
        if self.database.is_none() {
            secret(
                "gpuwise-database",
                "--from-literal=url=postgres://user:password@host/name",
            );
        }
        // `$(NAME)` would be a variable.
        let words: Vec<String> = self
            .words
            .iter()
            .map(|word| word.replace('$', "$$"))
            .collect();
        let asked = json!({"cpu": CORES, "memory": format!("{MEMORY_GIB}Gi")});
        let mut one = json!({
            "name": "gpuwise",
            "image": container.image,
            "command": words,
            "env": [database],
            "resources": {"requests": asked, "limits": {"memory": format!("{MEMORY_GIB}Gi")}},
        });
        let mut pod = json!({"restartPolicy": "Never"});
        if let Some(Volume { claim, folder }) = container.volume {
            one["volumeMounts"] =
                json!([{"name": "profiles", "mountPath": folder, "readOnly": true}]);
            let claimed = json!({"claimName": claim, "readOnly": true});
            pod["volumes"] = json!([{"name": "profiles", "persistentVolumeClaim": claimed}]);
        } else {
            secret(
                "gpuwise-bucket",
                "--from-literal=AWS_ACCESS_KEY_ID=… --from-literal=AWS_SECRET_ACCESS_KEY=… --from-literal=AWS_REGION=…",
            );
            one["envFrom"] = json!([{"secretRef": {"name": "gpuwise-bucket"}}]);
        }
        pod["containers"] = json!([one]);
        let job: Value = json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": NAME},
            "spec": {
                "completionMode": "Indexed",
                "completions": self.count,
                "parallelism": self.count,
                "backoffLimitPerIndex": TRIES,
                "template": {"spec": pod},
            },
        });
        format!("{comment}{}", yaml::document(&job))
    }

    /// A script for `sbatch`: each task of the array takes a shard by `SLURM_ARRAY_TASK_ID`. Source:
    /// slurm.schedmd.com/job_array.html.
    pub fn slurm(&self) -> String {
        let words: Vec<String> = self.words.iter().map(|word| quoted(word)).collect();
        let database = match self.database {
            Some(address) => format!("export GPUWISE_DATABASE={}", quoted(address)),
            None => {
                ": \"${GPUWISE_DATABASE:?set it to postgres://user:password@host/name before sbatch}\""
                    .into()
            }
        };
        format!(
            "#!/bin/bash\n\
             #SBATCH --job-name={NAME}\n\
             #SBATCH --array=0-{last}\n\
             #SBATCH --cpus-per-task={CORES}\n\
             #SBATCH --mem={MEMORY_GIB}G\n\
             #SBATCH --requeue\n\
             set -euo pipefail\n\
             {database}\n\
             exec {command}\n",
            last = self.count - 1,
            command = words.join(" "),
        )
    }
}
