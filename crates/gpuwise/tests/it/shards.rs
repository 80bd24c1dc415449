//! Files read by many, each by one.

use crate::support::{Place, ran};

/// One kernel, of a length of its own.
fn trace(length_us: u32) -> String {
    format!(
        r#"{{"traceEvents":[{{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":{length_us},"args":{{"device":0,"stream":7}}}}]}}"#
    )
}

fn folder(count: u32) -> Place {
    let place = Place::new();
    for number in 0..count {
        place.write(&format!("jobs/job-{number}.json"), trace(number + 1));
    }
    place
}

const EACH: [&str; 4] = ["profile", "jobs", "--each", "--save"];

#[test]
fn shards_keep_every_file_once() {
    let place = folder(20);
    let mut sum = 0;
    for index in 0..3 {
        let shard = format!("{index}/3");
        let read = place.run(&[&EACH[..], &["--shard", &shard, "--format", "csv"]].concat());
        assert_eq!(read.code, 0, "{}", read.err);
        assert!(read.err.contains("of 20 files"), "{}", read.err);
        sum += read.out.lines().count() - 1;
    }
    let kept = place.run(&["runs", "list", "--format", "csv"]);
    assert_eq!((sum, kept.out.lines().count()), (20, 21));
}

#[test]
fn a_job_says_which_shard_it_is() {
    let place = folder(20);
    let arguments = [&EACH[..], &["--shard", "auto/3", "--format", "csv"]].concat();
    let alone = place.run(&arguments);
    assert_eq!(alone.code, 2);
    assert!(alone.err.contains("JOB_COMPLETION_INDEX"), "{}", alone.err);
    let by_job = ran(place.command(&arguments).env("SLURM_ARRAY_TASK_ID", "2"));
    let by_hand = place.run(&[&EACH[..], &["--shard", "2/3", "--format", "csv"]].concat());
    assert_eq!(
        (by_job.code, by_job.out),
        (0, by_hand.out),
        "{}",
        by_job.err
    );
}

#[test]
fn a_job_is_printed_and_what_it_lacks_is_named() {
    let place = folder(1);
    let check = |more: &[&str], code: i32, expect: &str| {
        let done = place.run(&[&EACH[..], more].concat());
        assert_eq!(done.code, code, "{more:?}: {}", done.err);
        assert!(
            (done.out + &done.err).contains(expect),
            "{more:?}: {expect}"
        );
    };
    let server = "postgres://me:secret@host/runs";
    let auto = ["--shard", "auto/8", "--emit"];
    let slurm = [&auto[..], &["slurm", "--label", "team=a b"]].concat();
    check(
        &slurm,
        0,
        "gpuwise profile jobs --each --save --shard auto/8 --label 'team=a b'",
    );
    check(&slurm, 0, "${GPUWISE_DATABASE:?");
    let with_secret = place.run(&[&EACH[..], &slurm, &["--database", server]].concat());
    assert!(!with_secret.out.contains("secret"), "{}", with_secret.out);
    check(&[&slurm[..], &["--image", "x"]].concat(), 2, "--emit k8s");
    check(
        &[&slurm[..], &["--database", "runs.db"]].concat(),
        2,
        "SQLite",
    );
    check(&["--shard", "1/8", "--emit", "slurm"], 2, "--shard auto/8");
    let k8s = [&auto[..], &["k8s"]].concat();
    check(&k8s, 2, "--image is missing");
    check(
        &[&k8s[..], &["--image", "x", "--claim", "y"]].concat(),
        2,
        "one directory",
    );
    let whole = place.run(&[
        "profile", "/traces", "--each", "--save", "--shard", "auto/8", "--emit", "k8s", "--image",
        "x", "--claim", "y",
    ]);
    assert!(
        whole.out.contains("completions: 8"),
        "{}{}",
        whole.out,
        whole.err
    );
    check(&["--shard", "8/8"], 2, "numbered from 0 to 7");
}

#[test]
fn a_job_on_a_bucket_needs_no_volume() {
    let place = Place::new();
    let done = place.run(&[
        "profile",
        "s3://traces/today/",
        "--each",
        "--save",
        "--shard",
        "auto/8",
        "--emit",
        "k8s",
        "--image",
        "x",
    ]);
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(
        done.out.contains("gpuwise-bucket") && !done.out.contains("volume"),
        "{}",
        done.out
    );
}
