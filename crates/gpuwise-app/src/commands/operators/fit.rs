//! `gpuwise operators fit` and `check`.

use super::{
    super::{Context, Exit},
    rows::{Systems, samples},
};
use crate::operators::{functions, operator};
use crate::schemas::AnswerName;
use crate::{
    catalogue, progress,
    settings::{KeepOut, OperatorsCheck, OperatorsFit},
    write::Pending,
};
use gpuwise_operators::{
    Functions,
    fit::{KeptOut, errors, fitted},
    tables::{self, Operator},
};
use gpuwise_view::table::{Cell, Column, Table};
use std::collections::BTreeMap;

/// What the file of functions says of itself.
const HEAD: &str = "\
# Operator functions: a roofline by specs over measured shares; written by `gpuwise operators fit`, not by hand.
# Source: operator times of PyPI aiconfigurator-core 0.12.0 (NVIDIA, Apache-2.0), values only, thinned.
# table,lane,format|engine|kernel|class|major|minor|GPU|version,rows
# table,law,format,terms: what products take by physics; the surfaces are what it leaves
# table,share,path,best share of the dense peak
# table,spread,format,basis,low,high: logarithms of measured over predicted, 10 and 90 %
# table,surface,path,step,digits: logarithm of time over ideal at the knots, by what shorter paths leave
";

fn chosen(only: &[String]) -> anyhow::Result<Vec<&'static Operator>> {
    if only.is_empty() {
        return Ok(tables::ALL.to_vec());
    }
    only.iter().map(|name| operator("--only", name)).collect()
}

pub(super) fn run(context: &Context, flags: &OperatorsFit) -> anyhow::Result<Exit> {
    let pending = Pending::new(&flags.output)?;
    let loaded = catalogue::load(&context.app.overrides)?;
    let mut systems = Systems::new(&loaded.catalogue);
    let mut all = if flags.only.is_empty() {
        Functions::default()
    } else {
        functions(&loaded)?
    };
    for operator in chosen(&flags.only)? {
        let samples = samples(&flags.tables, operator, &mut systems)?;
        for (reason, rows) in &samples.left_out {
            progress::say(&format!(
                "{}: {rows} rows left out: {reason}",
                operator.name
            ));
        }
        all.replace(fitted([&samples]));
    }
    pending.finish(&format!("{HEAD}{}", all.text()))?;
    Ok(Exit::Yes)
}

pub(super) fn check(context: &Context, flags: &OperatorsCheck) -> anyhow::Result<Exit> {
    let loaded = catalogue::load(&context.app.overrides)?;
    let mut systems = Systems::new(&loaded.catalogue);
    let mut table = Table::new(vec![
        Column::left("table", "Table"),
        Column::left("kept_out", "Kept out"),
        Column::left("of", "Rows of"),
        Column::left("basis", "Basis"),
        Column::right("rows", "Rows"),
        Column::right("median", "Median error").unit("%"),
        Column::right("p90", "p90").unit("%"),
        Column::right("bias", "Bias").unit("%"),
        Column::right("in_range", "In range").unit("%"),
    ]);
    let kinds: Vec<KeptOut> = match flags.keep_out.as_slice() {
        [] => KeptOut::ALL.to_vec(),
        some => some.iter().map(|kind| kept_out(*kind)).collect(),
    };
    for operator in chosen(&flags.only)? {
        let samples = samples(&flags.tables, operator, &mut systems)?;
        let groups = errors(&samples, &kinds);
        let mut pooled: BTreeMap<Pooled<'_>, Vec<(f64, bool)>> = BTreeMap::new();
        for group in &groups {
            let shapes = u8::from(group.kept_out != "shapes");
            let of = if flags.detailed {
                format!("{} {} {}", group.gpu, group.engine, group.format)
            } else {
                group.gpu.clone()
            };
            let mut add = |of: String| {
                pooled
                    .entry((shapes, &group.kept_out, of, group.basis.name()))
                    .or_default()
                    .extend(group.judged(&groups));
            };
            add(of);
            add("all".into());
        }
        for ((_, kept_out, of, basis), judged) in pooled {
            table.push(line(operator.name, kept_out, &of, basis, &judged));
        }
    }
    context
        .answering(AnswerName::OperatorsCheck)
        .table(&table)?;
    Ok(Exit::Yes)
}

/// What errors are told of together: shapes last, what was kept out, of what, on what it rests.
type Pooled<'a> = (u8, &'a str, String, &'a str);

fn kept_out(kind: KeepOut) -> KeptOut {
    match kind {
        KeepOut::Shapes => KeptOut::Shapes,
        KeepOut::Models => KeptOut::Models,
        KeepOut::Gpus => KeptOut::Gpus,
    }
}

fn line(table: &str, kept_out: &str, of: &str, basis: &str, judged: &[(f64, bool)]) -> Vec<Cell> {
    let sorted = |of: &dyn Fn(f64) -> f64| {
        let mut values: Vec<f64> = judged.iter().map(|(log, _)| of(*log)).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let at = |values: &[f64], share: f64| {
        let last = values.len().saturating_sub(1);
        values
            .get((share * last as f64).round() as usize)
            .copied()
            .unwrap_or(f64::NAN)
    };
    // Predicted against measured.
    let off = sorted(&|log| ((-log).exp() - 1.0).abs() * 100.0);
    let bias = sorted(&|log| ((-log).exp() - 1.0) * 100.0);
    let within = judged.iter().filter(|(_, within)| *within).count();
    let percent = |value: f64| Cell::new(format!("{value:.1}"), (value * 10.0).round() / 10.0);
    vec![
        Cell::text(table),
        Cell::text(kept_out),
        Cell::text(of),
        Cell::text(basis),
        Cell::count(judged.len() as u64),
        percent(at(&off, 0.5)),
        percent(at(&off, 0.9)),
        percent(at(&bias, 0.5)),
        percent(100.0 * within as f64 / judged.len().max(1) as f64),
    ]
}
