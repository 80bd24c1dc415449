//! Proposals as changes that a person can apply: strategic-merge patches for `kubectl patch`, lines for
//! Slurm.

use crate::launch::quoted as shell_word;
use gpuwise_domain::usage::{
    Usage,
    proposal::{Change, Judgement, Proposal},
};
use gpuwise_units::significant;
use serde_json::json;
use std::fmt::Write as _;

/// A file to apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    /// Its name, without a directory.
    pub file: String,
    /// What it holds: why, how to apply it, and the change.
    pub text: String,
}

/// The change of one workload as files; none where there is nothing to change, and two where a patch and
/// a schedule are applied in different ways. `product` gives the label that NVIDIA's GPU feature discovery
/// puts on hosts with a GPU of this catalogue name.
pub fn patches(
    usage: &Usage,
    said: &Judgement,
    product: impl Fn(&str) -> Option<String>,
) -> Vec<Patch> {
    let Some(proposal) = &said.proposal else {
        return Vec::new();
    };
    let parts = proposal.change.parts();
    let is_schedule = |part: &&Change| matches!(part, Change::Schedule { .. });
    let (schedules, others): (Vec<&Change>, Vec<&Change>) = parts.iter().partition(is_schedule);
    // What is scheduled is what the patch leaves.
    let left = parts.iter().find_map(|part| match part {
        Change::Replicas { to, .. } => Some(*to),
        _ => None,
    });
    let mut usage = usage.clone();
    let mut out = Vec::new();
    if !others.is_empty() {
        out.push(patch(&usage, said, proposal, &others, &product, ""));
    }
    if !schedules.is_empty() {
        usage.asked.replicas = left.unwrap_or(usage.asked.replicas);
        let second = if others.is_empty() { "" } else { "-schedule" };
        out.push(patch(&usage, said, proposal, &schedules, &product, second));
    }
    out
}

fn patch(
    usage: &Usage,
    said: &Judgement,
    proposal: &Proposal,
    changes: &[&Change],
    product: &impl Fn(&str) -> Option<String>,
    ending: &str,
) -> Patch {
    let holder = &usage.holder;
    let stem: String = format!("{}-{}", holder.namespace, holder.name)
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_') {
                c
            } else {
                '_'
            }
        })
        .collect();
    let stem = format!("{}{ending}", stem.trim_start_matches(['-', '.']));
    let mut text = String::new();
    let comment = |text: &mut String, line: &str| {
        // A name may hold anything; a comment stays one line.
        let line: String = line
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let _ = writeln!(text, "# {line}");
    };
    comment(
        &mut text,
        &format!("{}: {}", said.verdict.title(), said.reason),
    );
    comment(&mut text, &format!("do: {}", proposal.title));
    if let Some(hourly) = proposal.saving.hourly.filter(|money| money.micros != 0) {
        comment(&mut text, &format!("saves {hourly} an hour"));
    }
    if let Some(short) = proposal.risk.hours_short {
        comment(
            &mut text,
            &format!(
                "of {} hours seen, {short} would have had too little",
                proposal.risk.hours_seen
            ),
        );
    }
    comment(&mut text, &format!("beware: {}", proposal.risk.note));
    if holder.kind == "SlurmJob" {
        for change in changes {
            text.push_str(&slurm(usage, change));
        }
        return Patch {
            file: format!("{stem}.sh"),
            text,
        };
    }
    let (body, how) = kubernetes(usage, changes, product);
    comment(
        &mut text,
        &format!("apply: {}", how.replace("FILE", &format!("{stem}.yaml"))),
    );
    text.push_str(&body);
    Patch {
        file: format!("{stem}.yaml"),
        text,
    }
}

fn quoted(text: &str) -> String {
    json!(text).to_string()
}

/// The patch of one change or of several that are applied together, and the command that applies it.
fn kubernetes(
    usage: &Usage,
    changes: &[&Change],
    product: &impl Fn(&str) -> Option<String>,
) -> (String, String) {
    let holder = &usage.holder;
    let kind = holder.kind.to_lowercase();
    let of = format!(
        "-n {} {} {}",
        shell_word(&holder.namespace),
        shell_word(&kind),
        shell_word(&holder.name)
    );
    let patched = format!("kubectl patch {of} --patch-file FILE");
    // Pods, and templates of jobs, cannot be changed once they run.
    let recreated = format!(
        "its {} cannot be changed in place: put this into its manifest and recreate it",
        holder.kind
    );
    let can_scale = matches!(
        holder.kind.as_str(),
        "Deployment" | "StatefulSet" | "ReplicaSet"
    );
    let in_place = can_scale || holder.kind == "DaemonSet";
    let how = if in_place { patched.clone() } else { recreated };
    match changes {
        [Change::ScaleToZero] if can_scale => ("spec:\n  replicas: 0\n".into(), patched),
        [Change::ScaleToZero] if holder.kind == "CronJob" || holder.kind == "Job" => {
            ("spec:\n  suspend: true\n".into(), patched)
        }
        [Change::ScaleToZero] => (String::new(), format!("kubectl delete {of}")),
        [Change::Replicas { to, .. }] => (format!("spec:\n  replicas: {to}\n"), patched),
        [Change::Schedule { busy_hours }] => schedule(usage, busy_hours, can_scale),
        [Change::MoreMemory { gpu: None }] => (
            String::new(),
            "nothing to apply: the program has to use less".into(),
        ),
        changes => (pod_template(usage, changes, product), how),
    }
}

/// What changes the pods, with the number of replicas where that changes too.
fn pod_template(
    usage: &Usage,
    changes: &[&Change],
    product: &impl Fn(&str) -> Option<String>,
) -> String {
    let (mut label, mut resources, mut unknown) = (None, Vec::new(), String::new());
    let (mut gpus, mut replicas) = (usage.asked.devices.max(1), None);
    let old = match &usage.asked.slice {
        Some(slice) => format!("nvidia.com/mig-{slice}"),
        None => "nvidia.com/gpu".into(),
    };
    let both = |lines: &mut Vec<String>, what: &str| {
        lines.extend(["limits", "requests"].map(|of| format!("{of}: {{{what}}}")));
    };
    for change in changes {
        match change {
            Change::Replicas { to, .. } => replicas = Some(*to),
            Change::Gpus { to, .. } => {
                gpus = *to;
                if !changes
                    .iter()
                    .any(|one| matches!(one, Change::Slice { .. }))
                {
                    both(&mut resources, &format!("{old}: {gpus}"));
                }
            }
            Change::Cpus { to, .. } => {
                let cpus = quoted(&significant(*to, 6));
                resources.push(format!("requests: {{cpu: {cpus}}}"));
                resources.push(format!("limits: {{cpu: {cpus}}}"));
            }
            Change::Slice { gpu, profile } => {
                label = product(gpu);
                // `null` takes the old resource away; extras of a profile are named with a dot.
                let new = format!("nvidia.com/mig-{}: {gpus}", profile.replace('+', "."));
                both(&mut resources, &format!("{old}: null, {new}"));
            }
            Change::OtherGpu { gpu } | Change::MoreMemory { gpu: Some(gpu) } => {
                label = product(gpu);
                if label.is_none() {
                    unknown = format!(
                        "# no label of hosts with {gpu} is known: choose them by one of yours\n"
                    );
                }
                if usage.asked.slice.is_some() {
                    both(
                        &mut resources,
                        &format!("{old}: null, nvidia.com/gpu: {gpus}"),
                    );
                }
            }
            _ => {}
        }
    }
    if label.is_none() && resources.is_empty() && replicas.is_none() {
        return unknown;
    }
    unknown + &template(usage, replicas, label.as_deref(), &resources)
}

/// A pod template with another host label and resources of the container that holds the GPUs.
fn template(
    usage: &Usage,
    replicas: Option<u32>,
    product: Option<&str>,
    resources: &[String],
) -> String {
    let pod = usage.holder.kind == "Pod";
    let mut out = String::from("spec:\n");
    if let Some(replicas) = replicas {
        let _ = writeln!(out, "  replicas: {replicas}");
    }
    if product.is_none() && resources.is_empty() {
        return out;
    }
    let indent = if pod { "  " } else { "      " };
    if usage.holder.kind == "CronJob" {
        out = String::from("spec:\n  jobTemplate:\n    spec:\n      template:\n        spec:\n");
    } else if !pod {
        out.push_str("  template:\n    spec:\n");
    }
    let indent = if usage.holder.kind == "CronJob" {
        "          "
    } else {
        indent
    };
    if let Some(product) = product {
        let _ = writeln!(
            out,
            "{indent}nodeSelector:\n{indent}  nvidia.com/gpu.product: {}",
            quoted(product)
        );
    }
    if !resources.is_empty() {
        let container = usage.asked.container.as_deref();
        let _ = writeln!(
            out,
            "{indent}containers:\n{indent}- name: {}",
            quoted(container.unwrap_or("CONTAINER"))
        );
        let _ = writeln!(out, "{indent}  resources:");
        for line in resources {
            let _ = writeln!(out, "{indent}    {line}");
        }
    }
    out
}

/// Scaled up before the first and down after the last busy hour of each day.
fn schedule(usage: &Usage, busy: &[u8], can_scale: bool) -> (String, String) {
    let days = [
        "sunday",
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
    ];
    let mut out = String::new();
    for (day, name) in (0_u8..).zip(days) {
        let hours: Vec<u8> = busy
            .iter()
            .filter(|hour| **hour / 24 == day)
            .map(|hour| hour % 24)
            .collect();
        match (hours.first(), hours.last()) {
            (Some(first), Some(last)) => {
                let _ = writeln!(
                    out,
                    "# {name}: busy from {first:02}:00 to {:02}:00 UTC",
                    last + 1
                );
            }
            _ => {
                let _ = writeln!(out, "# {name}: idle");
            }
        }
    }
    if busy.is_empty() {
        out = "# hours are not known: cull it after a few idle hours\n".into();
    }
    if !can_scale {
        return (
            out,
            "an idle culler that deletes it after some idle hours, such as JupyterHub's".into(),
        );
    }
    let holder = &usage.holder;
    let crons = crons(busy);
    if crons.is_empty() {
        return (
            out,
            "an autoscaler that goes down to 0, such as KEDA".into(),
        );
    }
    let _ = write!(
        out,
        "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata:\n  name: {name}\n  namespace: {namespace}\nspec:\n  scaleTargetRef:\n    kind: {kind}\n    name: {name}\n  minReplicaCount: 0\n  maxReplicaCount: {replicas}\n  triggers:\n",
        name = quoted(&holder.name),
        namespace = quoted(&holder.namespace),
        kind = holder.kind,
        replicas = usage.asked.replicas.max(1)
    );
    for (start, end) in crons {
        let _ = write!(
            out,
            "  - type: cron\n    metadata:\n      timezone: UTC\n      start: {}\n      end: {}\n      desiredReplicas: \"{}\"\n",
            quoted(&start),
            quoted(&end),
            usage.asked.replicas.max(1)
        );
    }
    (out, "kubectl apply -f FILE   (needs KEDA)".into())
}

/// Begin and end of the busy part of each day, equal days together.
fn crons(busy: &[u8]) -> Vec<(String, String)> {
    let mut spans: Vec<((u8, u8), Vec<u8>)> = Vec::new();
    for day in 0..7_u8 {
        let mut hours = busy
            .iter()
            .filter(|hour| **hour / 24 == day)
            .map(|hour| hour % 24);
        let Some(first) = hours.next() else { continue };
        let last = hours.next_back().unwrap_or(first);
        match spans.iter_mut().find(|(span, _)| *span == (first, last)) {
            Some((_, days)) => days.push(day),
            None => spans.push(((first, last), vec![day])),
        }
    }
    let list = |days: &[u8]| days.iter().map(u8::to_string).collect::<Vec<_>>().join(",");
    spans
        .into_iter()
        .map(|((first, last), days)| {
            (
                format!("0 {first} * * {}", list(&days)),
                format!("59 {last} * * {}", list(&days)),
            )
        })
        .collect()
}

/// A line for the batch script, or a command.
fn slurm(usage: &Usage, change: &Change) -> String {
    let count = usage.asked.devices.max(1);
    let job = shell_word(&usage.holder.name);
    match change {
        Change::ScaleToZero => format!("scancel {job}\n"),
        Change::Slice { profile, .. } => format!("#SBATCH --gres=gpu:{profile}:{count}\n"),
        Change::OtherGpu { gpu } | Change::MoreMemory { gpu: Some(gpu) } => {
            let kind: String = gpu.split(' ').next().unwrap_or(gpu).to_lowercase();
            format!("#SBATCH --gres=gpu:{kind}:{count}\n")
        }
        Change::Cpus { to, .. } => {
            let each = (to / f64::from(count)).ceil();
            format!("#SBATCH --cpus-per-gpu={each}\n")
        }
        Change::Replicas { to, .. } => format!("#SBATCH --array=1-{to}\n"),
        Change::Schedule { .. } => {
            "# submit it when there is work, in place of holding GPUs between\n".into()
        }
        Change::Gpus { to, .. } => format!("#SBATCH --gpus={to}\n"),
        Change::MoreMemory { gpu: None } => "# the program has to use less\n".into(),
        Change::Combined(parts) => parts.iter().map(|part| slurm(usage, part)).collect(),
    }
}
