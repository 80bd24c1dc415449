//! Jobs that read profiles in shards, read back as their schedulers read them.

use gpuwise_view::profile::shards::{Container, ShardedJob, Volume};
use serde_json::{Value, json};

const SECRET: Option<&str> = None;

fn words() -> Vec<String> {
    let words = [
        "gpuwise",
        "profile",
        "/traces of $ME",
        "--label",
        "team=it's",
        "--shard",
        "auto/12",
    ];
    words.map(Into::into).into()
}

fn kubernetes(database: Option<&str>) -> Value {
    let words = words();
    let job = ShardedJob {
        words: &words,
        count: 12,
        database,
    };
    let text = job.kubernetes(&Container {
        image: "registry.example/gpuwise:1",
        volume: Some(Volume {
            claim: "traces",
            folder: "/traces of $ME",
        }),
    });
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn a_job_of_kubernetes_has_an_index_for_each_shard() {
    let job = kubernetes(SECRET);
    let spec = &job["spec"];
    assert_eq!(
        (&job["kind"], &spec["completionMode"], &spec["completions"]),
        (&json!("Job"), &json!("Indexed"), &json!(12))
    );
    let pod = &spec["template"]["spec"];
    let container = &pod["containers"][0];
    // A dollar sign would begin a variable.
    assert_eq!(container["command"][2], "/traces of $$ME");
    assert_eq!(container["volumeMounts"][0]["mountPath"], "/traces of $ME");
    let claim = &pod["volumes"][0]["persistentVolumeClaim"]["claimName"];
    assert_eq!(claim, "traces");
    let from = &container["env"][0]["valueFrom"]["secretKeyRef"];
    assert_eq!(from, &json!({"name": "gpuwise-database", "key": "url"}));
    let open = kubernetes(Some("postgres://me@host/runs"));
    let env = &open["spec"]["template"]["spec"]["containers"][0]["env"][0];
    assert_eq!(env["value"], "postgres://me@host/runs");
}

#[test]
fn a_script_of_slurm_is_one_command_of_the_same_words() {
    let words = words();
    let job = ShardedJob {
        words: &words,
        count: 12,
        database: SECRET,
    };
    let script = job.slurm();
    assert!(script.contains("#SBATCH --array=0-11\n"), "{script}");
    // The words as a shell hands them on, one a line.
    let shown = script.replace("exec gpuwise", "printf '%s\\n' gpuwise");
    let run = |database: Option<&str>| {
        let mut shell = std::process::Command::new("bash");
        shell.args(["-c", &shown]).env_remove("GPUWISE_DATABASE");
        if let Some(database) = database {
            shell.env("GPUWISE_DATABASE", database);
        }
        shell.output().expect("bash runs")
    };
    let done = run(Some("postgres://me@host/runs"));
    assert_eq!(
        String::from_utf8_lossy(&done.stdout),
        words.join("\n") + "\n"
    );
    let refused = run(None);
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("GPUWISE_DATABASE"));
}
