//! `gpuwise optimize model.onnx --fuse batchnorm`: a graph is made simpler by onnxsim, and run before and after by ONNX
//! Runtime. What passes there are is theirs; that outputs stay what they were is held here.

use super::{
    super::{Context, Exit},
    settings as own,
    unfinished::Unfinished,
};
use crate::{
    error::Problem,
    programs, progress,
    settings::{Fusion, Optimize},
};
use gpuwise_units::Bytes;
use gpuwise_view::table::{Cell, Column, Table};
use serde::Deserialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::{Command, Stdio},
};

const SCRIPT: &str = include_str!("simplify.py");
/// How far an output may be from what it was, of its largest number.
const MOST: f64 = 1e-5;

/// What the script printed.
#[derive(Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Answer {
    Missing {
        missing: Option<String>,
    },
    Failed {
        failed: String,
    },
    Done {
        before: BTreeMap<String, u64>,
        after: BTreeMap<String, u64>,
        off: Option<f64>,
        why: Option<String>,
        by: String,
    },
}

pub(super) fn is_graph(model: &Path) -> bool {
    model.extension().is_some_and(|end| end == "onnx")
}

pub(super) fn run(context: &Context, flags: &Optimize) -> anyhow::Result<Exit> {
    let make = &flags.make;
    let form = make.to.map(|_| "--to").or(flags.recipe.map(|_| "--recipe"));
    let extra = form.or(own::of_numbers(make)).or(own::of_forms(make));
    if let Some(flag) = extra {
        return Err(
            Problem::new(format!("{flag} of {}", flags.model.display()))
                .hint("of an ONNX graph there is --fuse batchnorm and --fuse dead; smaller weights are made of safetensors, before they are exported")
                .into(),
        );
    }
    if make.fuse.is_empty() || !make.fuse.iter().all(|one| one.of_graphs()) {
        return Err(Problem::new(format!("{}: --fuse says nothing of a graph", flags.model.display()))
            .hint("expected --fuse batchnorm, --fuse dead, or both with a comma; qkv and gate-up are of safetensors")
            .into());
    }
    let output = make.output.as_deref().ok_or_else(|| {
        Problem::new("--output FILE is missing")
            .hint("the file that is to be written, such as -o model-fused.onnx")
    })?;
    if output.exists() {
        return Err(
            Problem::new(format!("{} is there already", output.display()))
                .hint("name another file, or remove it")
                .into(),
        );
    }
    let size = fs::metadata(&flags.model)
        .map_err(|error| {
            Problem::new(format!("cannot read {}", flags.model.display())).because(error)
        })?
        .len();
    let pending = Unfinished::beside(output, "partial.onnx")?;
    progress::doing("onnxsim");
    let fuse = make.fuse.contains(&Fusion::Batchnorm);
    let answer = simpler(&flags.model, pending.path(), fuse);
    progress::doing("");
    let (before, after, off, by) = judged(&flags.model, answer?)?;
    let written = fs::metadata(pending.path())
        .map_err(|error| Problem::new("onnxsim wrote nothing").because(error))?
        .len();
    fs::rename(pending.path(), output).map_err(|error| {
        Problem::new(format!("cannot write {}", output.display())).because(error)
    })?;
    let mut table = table(&before, &after);
    table.footnote(format!(
        "{} became {}; outputs differ by {off:.1e} of their largest number at most, on random inputs (bound {MOST:.0e})",
        Bytes::new(size),
        Bytes::new(written)
    ));
    table.footnote(format!("by {by}"));
    table.footnote(format!("written: {}", output.display()));
    context.table(&table)?;
    Ok(Exit::Yes)
}

fn simpler(model: &Path, to: &Path, fuse: bool) -> anyhow::Result<Answer> {
    let python = programs::found("python3").ok_or_else(|| {
        Problem::new("python3 is not on the PATH")
            .hint("ONNX graphs are made simpler by onnxsim: pip install onnx onnxsim onnxruntime")
    })?;
    let done = Command::new(&python)
        .args(["-c", SCRIPT])
        .args([model, to])
        .arg(if fuse { "fuse" } else { "skip" })
        .stdin(Stdio::null())
        .output()
        .map_err(|error| {
            Problem::new(format!("{} does not start", python.display())).because(error)
        })?;
    let text = String::from_utf8_lossy(&done.stdout);
    let last = text.lines().last().unwrap_or_default();
    match serde_json::from_str(last) {
        Ok(Answer::Missing { missing }) => Err(Problem::new(format!(
            "{} has no {}",
            python.display(),
            missing.as_deref().unwrap_or("onnxsim")
        ))
        .hint("pip install onnx onnxsim onnxruntime, in an environment that is active here")
        .into()),
        Ok(answer) if done.status.success() => Ok(answer),
        _ => {
            let err = String::from_utf8_lossy(&done.stderr);
            let last = err
                .lines()
                .last()
                .unwrap_or("it printed nothing")
                .to_owned();
            Err(Problem::new(format!("onnxsim ended with {}", done.status))
                .hint(last)
                .into())
        }
    }
}

type Ops = BTreeMap<String, u64>;

/// What it was, what it is, how far outputs are from one another, and by whom.
fn judged(model: &Path, answer: Answer) -> anyhow::Result<(Ops, Ops, f64, String)> {
    let wrong = |what: String, hint: &str| {
        let what = format!("{}: {what}", model.display());
        Err(Problem::new(what).hint(hint).into())
    };
    match answer {
        Answer::Missing { .. } => wrong("onnxsim is missing".into(), "pip install onnxsim"),
        Answer::Failed { failed } => wrong(failed, "onnxsim does not take it; nothing was written"),
        Answer::Done { off: None, why, .. } => wrong(
            format!("the graphs were not compared: {}", why.unwrap_or_default()),
            "only what was run and is the same is written; give open sizes of its inputs numbers before",
        ),
        Answer::Done { off: Some(off), .. } if off.is_nan() || off > MOST => wrong(
            format!("outputs of the simpler graph are off by {off:.1e}, more than {MOST:.0e}"),
            "nothing was written; the graph may compute in 16 bits, where sums in another order differ by more",
        ),
        Answer::Done {
            before,
            after,
            off,
            by,
            ..
        } => Ok((before, after, off.unwrap_or_default(), by)),
    }
}

fn table(before: &Ops, after: &Ops) -> Table {
    let mut table = Table::new(vec![
        Column::left("operator", "operator"),
        Column::right("before", "before"),
        Column::right("after", "after"),
    ]);
    let kinds: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let of = |ops: &Ops, kind: &str| ops.get(kind).copied().unwrap_or_default();
    for kind in kinds {
        let counts = [before, after].map(|ops| Cell::count(of(ops, kind)));
        table.push([vec![Cell::text(kind.as_str())], counts.to_vec()].concat());
    }
    let all = [before, after].map(|ops| Cell::count(ops.values().sum()));
    table.push([vec![Cell::text("all")], all.to_vec()].concat());
    table
}
