//! `gpuwise operators show`.

use super::{
    super::{Answer, Context},
    functions, operator,
};
use crate::{catalogue, cli::OperatorsShow, error::Problem, names, write::Pending};
use gpuwise_domain::engine::EngineKind;
use gpuwise_operators::{
    Curve, ExpertLoad, Experts, Functions, GemmFormat, MoeFormat, OperatorError, Silicon,
    tables::{Weights, Work, gemm, moe},
};
use gpuwise_view::{
    svg::{EfficiencySeries, efficiency},
    table::{Cell, Column, Table},
};

/// A square layer of this width is drawn.
const WIDTH: f64 = 8192.0;
/// The experts of Qwen3-30B-A3B are drawn.
const EXPERTS: Experts = Experts {
    hidden: 2048.0,
    inter: 768.0,
    topk: 8.0,
    experts: 128.0,
    tensor_parallel: 1.0,
    expert_parallel: 1.0,
    gated: true,
};

/// A format's curve, and its work by specs.
struct Drawn {
    name: &'static str,
    curve: Curve,
    work: Box<dyn Fn(f64) -> Work>,
}

pub(super) fn run(context: &Context, flags: &OperatorsShow) -> anyhow::Result<Answer> {
    let pending = flags.output.as_deref().map(Pending::new).transpose()?;
    let loaded = catalogue::load(&context.overrides)?;
    let device = names::device(&loaded.catalogue, "GPU", &flags.gpu)?;
    let silicon = Silicon::of(&device);
    let engine = crate::engine::engine(&flags.engine)?.kind;
    let operator = operator("operator", &flags.operator)?;
    let (drawn, what) = match operator.name {
        "gemm" => (
            gemms(&functions()?, &silicon, engine)?,
            "GEMM of 8192 outputs and inputs",
        ),
        "moe" => (
            experts(&functions()?, &silicon, engine)?,
            "8 of 128 experts of 2048 x 768",
        ),
        other => {
            return Err(
                Problem::new(format!("operator {other}: it has no curve over one size"))
                    .hint("gemm and moe have; `gpuwise operators predict` answers for any size")
                    .into(),
            );
        }
    };
    let mut table = Table::new(vec![
        Column::left("format", "Format"),
        Column::right("tokens", "Tokens"),
        Column::right("time", "Time").unit("ms"),
        Column::right("low", "Low").unit("ms"),
        Column::right("high", "High").unit("ms"),
        Column::right("share", "Of roofline").unit("%"),
        Column::left("basis", "Rests on"),
    ]);
    let mut series = Vec::new();
    for one in &drawn {
        let mut points = Vec::new();
        for doubling in 0..=14 {
            let tokens = f64::from(1 << doubling);
            let seconds = one.curve.at(tokens);
            let spread = one.curve.spread();
            let (low, high) = one.curve.range(tokens);
            let work = (one.work)(tokens);
            let share = work.compute.max(work.memory) / seconds;
            points.push((tokens, share));
            table.push(vec![
                Cell::text(one.name),
                Cell::count(1 << doubling),
                Cell::number(seconds * 1e3),
                Cell::number(low * 1e3),
                Cell::number(high * 1e3),
                Cell::new(format!("{:.0}", share * 100.0), share * 100.0),
                Cell::text(spread.basis.name()),
            ]);
        }
        series.push(EfficiencySeries {
            name: format!("{}, {}", one.name, one.curve.spread().basis.name()),
            points,
        });
    }
    table.footnote(format!(
        "{what} on {} under {}; weights come from memory. Roofline: FLOP at the dense peak or weights at the memory's bandwidth, whichever takes longer.",
        silicon.name,
        engine.title()
    ));
    if let Some(pending) = pending {
        let title = format!("{what} on {}", silicon.name);
        let picture = efficiency(&series, &title, "tokens", "efficiency")
            .ok_or_else(|| Problem::new("there is nothing to draw"))?;
        pending.finish(&picture.to_svg())?;
    }
    context.output.table(&table)?;
    Ok(Answer::Yes)
}

fn gemms(
    functions: &Functions,
    silicon: &Silicon,
    engine: EngineKind,
) -> Result<Vec<Drawn>, OperatorError> {
    let formats = GemmFormat::ALL.into_iter().filter(|format| {
        let covered = functions.covers("gemm", format.label(), engine, silicon);
        *format == GemmFormat::Bf16 || covered && silicon.has(format.compute())
    });
    formats
        .map(|format| {
            let own = silicon.clone();
            Ok(Drawn {
                name: format.label(),
                curve: functions.gemm(silicon, engine, format, WIDTH, WIDTH)?,
                work: Box::new(move |m| gemm::work(&own, format, Weights::Cold, [m, WIDTH, WIDTH])),
            })
        })
        .collect()
}

fn experts(
    functions: &Functions,
    silicon: &Silicon,
    engine: EngineKind,
) -> Result<Vec<Drawn>, OperatorError> {
    let formats = MoeFormat::ALL.into_iter().filter(|format| {
        let covered = functions.covers("moe", format.label(), engine, silicon);
        *format == MoeFormat::Bf16 || covered && silicon.has(format.compute())
    });
    let load = ExpertLoad::Balanced;
    formats
        .map(|format| {
            let own = silicon.clone();
            Ok(Drawn {
                name: format.label(),
                curve: functions.moe(silicon, engine, format, &EXPERTS, load)?,
                work: Box::new(move |tokens| {
                    moe::work(&own, format, Weights::Cold, &EXPERTS, load, tokens)
                }),
            })
        })
        .collect()
}
