//! `gpuwise operators predict`.

use super::{
    super::{Context, Exit},
    rows::{File, Systems},
};
use crate::{
    catalogue,
    operators::{functions, operator},
    settings::OperatorsPredict,
    write::Pending,
};
use anyhow::Context as _;

pub(super) fn run(context: &Context, flags: &OperatorsPredict) -> anyhow::Result<Exit> {
    let pending = flags.output.as_deref().map(Pending::new).transpose()?;
    let operator = operator("--table", &flags.table)?;
    let loaded = catalogue::load(&context.app.overrides)?;
    let functions = functions(&loaded)?;
    let mut systems = Systems::new(&loaded.catalogue);
    let file = File::read(&flags.file)?;
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut headed = false;
    file.each(operator, |row| {
        if !headed {
            headed = true;
            let added = ["predicted_ms", "low_ms", "high_ms", "basis"];
            writer.write_record(row.columns.names().iter().copied().chain(added))?;
        }
        let silicon = systems.silicon(row.text("system")?)?;
        let found = functions.predict_row(operator, row, silicon)?;
        let figures = [found.seconds, found.low, found.high].map(|s| format!("{:.5e}", s * 1e3));
        let figures = figures.iter().map(|text| plain(text));
        let fields = row.fields.iter().map(|field| (*field).to_owned());
        writer.write_record(fields.chain(figures).chain([found.basis.name().into()]))?;
        Ok(())
    })?;
    let bytes = writer.into_inner().context("writing rows")?;
    let text = String::from_utf8(bytes).context("writing rows")?;
    match pending {
        Some(pending) => pending.finish(&text)?,
        None => context.data(&text)?,
    }
    Ok(Exit::Yes)
}

/// Six digits without an exponent.
fn plain(text: &str) -> String {
    text.parse::<f64>()
        .map_or_else(|_| text.into(), |x| x.to_string())
}
