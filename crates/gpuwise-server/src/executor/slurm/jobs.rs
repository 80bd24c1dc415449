//! What Slurm says of jobs and nodes: `squeue --json` and `sinfo --json`, of 22.05 and later, and slurmrestd, which
//! answers in the same form.

use serde_json::Value;

/// A job of Slurm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SlurmJob {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) comment: String,
    pub(super) state: JobPhase,
    /// Why it is in that state, as Slurm says it.
    pub(super) reason: String,
    pub(super) priority: Option<u64>,
    /// The account that it is charged to.
    pub(super) account: Option<String>,
    /// Whether it has had nodes.
    pub(super) ran: bool,
    /// Where it is over: when that was, in seconds since 1970.
    pub(super) ended: Option<u64>,
}

impl SlurmJob {
    /// Whether it runs, or will.
    pub(super) const fn is_alive(&self) -> bool {
        !matches!(self.state, JobPhase::Over(_))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JobPhase {
    Pending,
    Running,
    /// It has its nodes, and does not run.
    Suspended,
    /// Its end is on its way, or it is being requeued.
    Completing,
    /// With its exit code; `None`: it was ended by a signal, or with its node.
    Over(Option<i32>),
}

/// A node of Slurm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SlurmNode {
    pub(super) name: String,
    /// Where it is reached.
    pub(super) address: String,
    /// Types of its GPUs, as `gpu:TYPE:N` says them; an empty one where no type is said.
    pub(super) types: Vec<String>,
    /// Features that it has now, sorted.
    pub(super) features: Vec<String>,
    pub(super) state: gpuwise_broker::NodeSeen,
    /// Whether it is to be drained, and whether its reason says that it is fenced, whoever said so.
    pub(super) drained: bool,
    pub(super) fenced: bool,
}

/// A list of a document, if it has one of that name; or what went wrong at Slurm.
fn list<'a>(document: &'a Value, name: &str) -> Result<Option<&'a Vec<Value>>, String> {
    if let Some(error) = document["errors"].get(0) {
        let said = error["error"].as_str().or(error["description"].as_str());
        return Err(said.map_or_else(|| error.to_string(), str::to_owned));
    }
    Ok(document[name].as_array())
}

/// A number; newer releases say whether it is set.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Object(fields) if fields.get("set") == Some(&Value::Bool(false)) => None,
        Value::Object(fields) => fields.get("number")?.as_u64(),
        other => other.as_u64(),
    }
}

/// A text that says something.
fn said(value: &Value) -> Option<String> {
    let text = value.as_str()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Words; newer releases list them.
fn words(value: &Value) -> Vec<String> {
    match value {
        Value::Array(words) => (words.iter().filter_map(Value::as_str))
            .map(str::to_ascii_uppercase)
            .collect(),
        other => (other.as_str().into_iter())
            .map(str::to_ascii_uppercase)
            .collect(),
    }
}

/// The exit code: a status as `wait` gives it until 22.05, later its two parts.
fn exit_code(value: &Value) -> Option<i32> {
    if value.get("return_code").is_some() {
        if number(&value["signal"]["id"]).is_some_and(|signal| signal > 0) {
            return None;
        }
        return i32::try_from(number(&value["return_code"])?).ok();
    }
    let status = number(value)?;
    let signal = status & 0x7f;
    (signal == 0)
        .then(|| i32::try_from(status >> 8 & 0xff).ok())
        .flatten()
}

fn phase(job: &Value) -> JobPhase {
    let states = words(&job["job_state"]);
    let is = |word: &str| states.iter().any(|one| one == word);
    let base = |all: &[&str]| all.iter().any(|word| is(word));
    if base(&["COMPLETING", "REQUEUED", "SIGNALING", "STAGE_OUT"]) {
        return JobPhase::Completing;
    }
    if base(&[
        "PENDING",
        "CONFIGURING",
        "REQUEUE_HOLD",
        "REQUEUE_FED",
        "SPECIAL_EXIT",
    ]) {
        return JobPhase::Pending;
    }
    if base(&["SUSPENDED", "STOPPED"]) {
        return JobPhase::Suspended;
    }
    if base(&["RUNNING", "RESIZING"]) {
        return JobPhase::Running;
    }
    if is("COMPLETED") || is("FAILED") {
        return JobPhase::Over(exit_code(&job["exit_code"]));
    }
    // Cancelled, timed out, out of memory, with its node.
    JobPhase::Over(None)
}

/// Jobs of a user that Slurm knows, whose comment begins with `ours`: what others write of theirs is not believed.
pub(super) fn jobs(text: &str, ours: &str, user: u32) -> Result<Vec<SlurmJob>, String> {
    let document: Value = serde_json::from_str(text)
        .map_err(|error| format!("what Slurm says of jobs cannot be read: {error}"))?;
    let mut found = Vec::new();
    let all = list(&document, "jobs")?;
    for job in all.ok_or("it lists no jobs")? {
        let comment = job["comment"].as_str().unwrap_or_default();
        let own = number(&job["user_id"]).is_none_or(|id| id == u64::from(user));
        let own = own && comment.starts_with(ours);
        let Some(id) = number(&job["job_id"]).filter(|_| own) else {
            continue;
        };
        let state = phase(job);
        // Of one that runs it is when its time will be over.
        let ended = number(&job["end_time"]).filter(|end| *end > 0);
        found.push(SlurmJob {
            id,
            name: job["name"].as_str().unwrap_or_default().to_owned(),
            comment: comment.to_owned(),
            ended: ended.filter(|_| matches!(state, JobPhase::Over(_))),
            state,
            reason: job["state_reason"].as_str().unwrap_or_default().to_owned(),
            priority: number(&job["priority"]),
            account: said(&job["account"]),
            ran: job["nodes"].as_str().is_some_and(|nodes| !nodes.is_empty()),
        });
    }
    Ok(found)
}

/// `gpu:h200:8(S:0-1),gpu:a100:2` as types.
fn types(gres: &str) -> Vec<String> {
    let gpus = gres.split(',').filter_map(|one| {
        let one = one.split('(').next()?;
        one.strip_prefix("gpu:")
    });
    let mut found: Vec<String> = gpus
        .map(|one| one.rsplit_once(':').map_or("", |(kind, _)| kind).to_owned())
        .collect();
    found.dedup();
    found
}

/// Features: joined until 22.05, later a list.
fn features(value: &Value) -> Vec<String> {
    let all: Vec<&str> = match value {
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        other => other.as_str().unwrap_or_default().split(',').collect(),
    };
    let named = all
        .iter()
        .map(|one| one.trim())
        .filter(|one| !one.is_empty());
    let mut all: Vec<String> = named.map(str::to_owned).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// How a node is, and whether it is to be drained.
///
/// One that does not answer is down to Slurm after a while (`DOWN*`): it may be frozen, and what ran there may go on.
/// Nothing runs on one that is off, or that is down and answers: its daemon has ended what ran.
fn seen(node: &Value) -> (gpuwise_broker::NodeSeen, bool) {
    use gpuwise_broker::NodeSeen;
    let mut all = words(&node["state"]);
    all.extend(words(&node["state_flags"]));
    let is = |word: &str| all.iter().any(|one| one == word);
    let any = |words: &[&str]| words.iter().any(|word| is(word));
    let silent = any(&["NOT_RESPONDING", "UNKNOWN"]);
    let down = any(&["DOWN", "ERROR"]);
    let drained = any(&["DRAIN", "DRAINING", "DRAINED"]);
    // A drain that has come to its end leaves a node down, or idle and drained.
    let seen = if is("POWERED_DOWN") || down && !silent {
        NodeSeen::Down
    } else if silent {
        NodeSeen::Silent
    } else if drained || any(&["MAINTENANCE", "FAIL", "REBOOT_REQUESTED"]) {
        NodeSeen::Draining
    } else {
        NodeSeen::Up
    };
    (seen, drained)
}

/// Whether a reason has the word by which an administrator says that nothing of a node runs on.
fn fenced(reason: &str) -> bool {
    let mut words = reason.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| word.eq_ignore_ascii_case("fenced"))
}

pub(super) fn nodes(text: &str) -> Result<Option<Vec<SlurmNode>>, String> {
    let document: Value = serde_json::from_str(text)
        .map_err(|error| format!("what Slurm says of nodes cannot be read: {error}"))?;
    // `sinfo --json` of 23.02 and later is grouped; `scontrol show nodes --json` lists nodes there.
    let Some(all) = list(&document, "nodes")? else {
        return Ok(None);
    };
    let all = all.iter().filter_map(|node| {
        let name = node["name"].as_str()?.to_owned();
        let address = node["address"].as_str().unwrap_or(&name).to_owned();
        let (state, drained) = seen(node);
        Some(SlurmNode {
            types: types(node["gres"].as_str().unwrap_or_default()),
            features: features(&node["active_features"]),
            state,
            drained,
            fenced: fenced(node["reason"].as_str().unwrap_or_default()),
            name,
            address,
        })
    });
    Ok(Some(all.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwise_broker::NodeSeen;

    #[test]
    fn jobs_of_old_and_new_releases_are_read_alike() {
        let old = r#"{"errors": [], "jobs": [
            {"job_id": 4, "comment": "gpuwise log=a", "job_state": "FAILED", "state_reason": "NonZeroExitCode",
             "exit_code": 1792, "nodes": "gpu1", "user_id": 7, "end_time": 1793491200},
            {"job_id": 5, "comment": "somebody else's", "job_state": "RUNNING"},
            {"job_id": 6, "comment": "gpuwise log=a", "user_id": 8, "job_state": "RUNNING"}]}"#;
        let new = r#"{"errors": [], "jobs": [
            {"job_id": 4, "comment": "gpuwise log=a", "job_state": ["FAILED"], "state_reason": "NonZeroExitCode",
             "exit_code": {"return_code": {"set": true, "number": 7}, "signal": {"id": {"set": false, "number": 0}}},
             "nodes": "gpu1", "user_id": 7, "end_time": {"set": true, "number": 1793491200}}]}"#;
        let read = |text| jobs(text, "gpuwise log=a", 7).expect("reads");
        assert_eq!(read(old), read(new));
        assert_eq!(read(old)[0].state, JobPhase::Over(Some(7)));
        assert_eq!(read(old)[0].ended, Some(1_793_491_200));
        assert_eq!(
            read(old).len(),
            1,
            "a comment of another user's job says nothing"
        );
    }

    #[test]
    fn what_went_wrong_at_slurm_is_no_empty_list() {
        let wrong =
            r#"{"errors": [{"error": "Unspecified error", "errno": -1}], "jobs": [], "nodes": []}"#;
        assert_eq!(jobs(wrong, "g", 7), Err("Unspecified error".into()));
        assert_eq!(nodes(wrong), Err("Unspecified error".into()));
        assert!(jobs(r#"{"errors": []}"#, "g", 7).is_err());
        // Grouped, since 23.02.
        assert_eq!(nodes(r#"{"errors": [], "sinfo": [{}]}"#), Ok(None));
    }

    #[test]
    fn a_job_that_is_suspended_does_not_run() {
        let text = r#"{"jobs": [{"job_id": 1, "comment": "g", "job_state": ["SUSPENDED"], "end_time": 99},
            {"job_id": 2, "comment": "g", "job_state": "STOPPED"},
            {"job_id": 3, "comment": "g", "job_state": "RUNNING", "end_time": 99}]}"#;
        let found = jobs(text, "g", 7).expect("reads");
        let states: Vec<JobPhase> = found.iter().map(|job| job.state).collect();
        let wanted = [JobPhase::Suspended, JobPhase::Suspended, JobPhase::Running];
        assert_eq!(states, wanted);
        assert!(
            found
                .iter()
                .all(|job| job.ended.is_none() && job.is_alive())
        );
    }

    #[test]
    fn a_requeue_on_its_way_is_no_end() {
        let text = r#"{"jobs": [{"job_id": 1, "comment": "g", "job_state": ["PENDING", "COMPLETING"]},
            {"job_id": 2, "comment": "g", "job_state": "CANCELLED", "exit_code": 0}]}"#;
        let found = jobs(text, "g", 7).expect("reads");
        assert_eq!(found[0].state, JobPhase::Completing);
        // Its code says nothing: it did not end by itself.
        assert_eq!(found[1].state, JobPhase::Over(None));
        assert!(jobs(r#"{"errors": [{"error": "no controller"}]}"#, "g", 7).is_err());
        assert!(jobs("slurm_load_jobs error", "g", 7).is_err());
    }

    #[test]
    fn nodes_are_up_draining_silent_or_down() {
        let node = |state: &str, flags: &str| {
            let text = format!(
                r#"{{"nodes": [{{"name": "n", "gres": "gpu:h200:8(S:0-1),gpu:l4:2", "state": {state}, "state_flags": {flags}}}]}}"#
            );
            nodes(&text).expect("reads").expect("lists nodes").remove(0)
        };
        assert_eq!(node("\"idle\"", "[]").types, ["h200", "l4"]);
        assert_eq!(node("\"mixed\"", "[]").state, NodeSeen::Up);
        assert_eq!(node("\"idle\"", r#"["DRAIN"]"#).state, NodeSeen::Draining);
        assert_eq!(
            node("[\"IDLE\", \"NOT_RESPONDING\"]", "null").state,
            NodeSeen::Silent
        );
        // Frozen, for all that Slurm knows.
        assert_eq!(
            node("\"down\"", r#"["NOT_RESPONDING"]"#).state,
            NodeSeen::Silent
        );
        assert_eq!(node("\"down\"", "[]").state, NodeSeen::Down);
        let off = node("\"idle\"", r#"["POWERED_DOWN", "NOT_RESPONDING"]"#);
        assert_eq!(off.state, NodeSeen::Down);
    }
}
