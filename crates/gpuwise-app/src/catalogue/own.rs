//! Rows that are read where they are used: those of the catalogue, and the user's over them.

use super::{Loaded, embedded};
use gpuwise_domain::{engine::EngineKind, evidence::EvidenceRow, facts::EngineFacts};
use gpuwise_lab::{
    OwnRows,
    fitting::{read_file, read_knowledge},
};
use gpuwise_operators::{Functions, Operators};
use gpuwise_read::{
    catalogue as read, fabric, kernel_counters, kernel_rules, reliability, telemetry, tier, usage,
    weight_loaders::read_weight_loaders,
};
use gpuwise_size::balance::BalanceConstants;
use std::sync::Arc;

/// Files of such rows, as name and text: that of the catalogue, then the user's. Later ones win.
pub fn files(loaded: &Loaded, rows: OwnRows) -> impl Iterator<Item = (&str, &str)> {
    let carried = embedded::OWN.iter().find(|(of, ..)| *of == rows);
    carried
        .map(|(_, file, text)| (*file, *text))
        .into_iter()
        .chain(loaded.own(rows))
}

/// The file of such rows that wins, where one stands for all of them.
pub fn file(loaded: &Loaded, rows: OwnRows) -> (&str, &str) {
    files(loaded, rows).last().unwrap_or_default()
}

/// What the engine's releases do, for engines of which the catalogue knows facts; rows of the user's
/// come first.
///
/// # Errors
/// When there are none for this engine, or they cannot be read.
pub fn engine_facts(loaded: &Loaded, kind: EngineKind) -> anyhow::Result<EngineFacts> {
    let carried = embedded::engine(kind);
    let mut known = carried
        .map(|(file, text)| read::read_engine_facts(file, text))
        .transpose()?;
    for (file, text) in loaded.own(OwnRows::EngineFacts) {
        let own = read::read_engine_facts(file, text)?;
        if own.engine == kind {
            known = Some(match known {
                Some(known) => own.over(known),
                None => own,
            });
        }
    }
    known.ok_or_else(|| {
        crate::error::Problem::new(format!("the catalogue has no facts about {}", kind.title()))
            .into()
    })
}

/// Facts of every engine that has a file of them.
///
/// # Errors
/// When a file of the user's cannot be read.
pub fn all_engine_facts(loaded: &Loaded) -> anyhow::Result<Vec<EngineFacts>> {
    let known = EngineKind::ALL.into_iter();
    known
        .filter(|kind| embedded::engine(*kind).is_some())
        .map(|kind| engine_facts(loaded, kind))
        .collect()
}

/// The published measurements, with rows of the user's.
///
/// # Errors
/// When they cannot be read.
pub fn evidence(loaded: &Loaded) -> anyhow::Result<Vec<EvidenceRow>> {
    let mut rows = read::read_evidence("evidence.csv.gz", embedded::EVIDENCE)?;
    for (file, text) in loaded.own(OwnRows::Evidence) {
        rows.extend(read::read_evidence(file, text.as_bytes())?);
    }
    Ok(rows)
}

/// Whether a file can be read as such rows; it is what `gpus --check` asks.
///
/// # Errors
/// What is wrong in it.
pub(super) fn checked(rows: OwnRows, file: &str, text: &str) -> anyhow::Result<()> {
    match rows {
        OwnRows::EngineFacts => drop(read::read_engine_facts(file, text)?),
        OwnRows::KernelNames => drop(kernel_rules::read(file, text)?),
        OwnRows::KernelCounters => drop(kernel_counters::read_counter_rules(file, text)?),
        OwnRows::Audit => drop(usage::read_audit_catalogue(file, text)?),
        OwnRows::TelemetryThresholds => drop(telemetry::read_thresholds(file, text)?),
        OwnRows::TelemetryFields => telemetry::FieldNames::default().add_fields(file, text)?,
        OwnRows::DcgmFields => telemetry::FieldNames::default().add_dcgm(file, text)?,
        OwnRows::XidErrors => drop(telemetry::read_xids(file, text)?),
        OwnRows::Costs => drop(read::read_costs(file, text)?),
        OwnRows::HostBalance => {
            let mut all = Vec::new();
            for (file, text) in files(&Loaded::default(), rows) {
                all.extend(read::read_balance(file, text)?);
            }
            all.extend(read::read_balance(file, text)?);
            drop(BalanceConstants::new(&all)?);
        }
        OwnRows::Reliability => {
            let mut known = None;
            for (file, text) in files(&Loaded::default(), rows).chain([(file, text)]) {
                known = Some(reliability::read_reliability(file, text, known.as_ref())?);
            }
        }
        OwnRows::TierRules => drop(tier::read_rules(text)?),
        OwnRows::PcieCollectives => drop(fabric::read_pcie_constants(file, text)?),
        OwnRows::Constants => {
            read_file(file, text)?;
            let operators = Arc::new(Operators::from(Functions::parse(embedded::OPERATORS)?));
            drop(read_knowledge(file, text, &operators)?);
        }
        OwnRows::Operators => drop(Functions::parse(text)?),
        OwnRows::WeightLoaders => drop(read_weight_loaders(file, text)?),
        OwnRows::Evidence => drop(read::read_evidence(file, text.as_bytes())?),
    }
    Ok(())
}
