//! What is known beforehand: names, thresholds, error codes, devices.

use super::{Context, Flags};
use crate::{
    catalogue::{self, Loaded, OwnRows},
    error::Problem,
    profiles, usage_rules,
};
use gpuwise_domain::{profile::finding::Finding, telemetry::Thresholds, usage::rules::Rules};
use gpuwise_measure::{
    audit::Market,
    telemetry::{DeviceFacts, Facts, Sizing, State, findings},
};
use gpuwise_read::telemetry::{FieldNames, read_thresholds, read_xids};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

pub(super) struct Knowledge {
    pub(super) names: FieldNames,
    pub(super) limits: Thresholds,
    pub(super) facts: Facts,
    rules: Rules,
    loaded: Loaded,
    asked: BTreeSet<String>,
}

impl Knowledge {
    pub(super) fn load(context: &Context, flags: &Flags) -> anyhow::Result<Self> {
        let loaded = catalogue::load(&context.app.overrides)?;
        let mut xids = BTreeMap::new();
        for (file, text) in catalogue::files(&loaded, OwnRows::XidErrors) {
            xids.extend(read_xids(file, text)?);
        }
        Ok(Self {
            names: field_names(&loaded, flags)?,
            limits: thresholds(&loaded, flags)?,
            facts: Facts {
                xids,
                ..Facts::default()
            },
            rules: usage_rules::thresholds(&loaded, flags.rules.as_deref())?,
            loaded,
            asked: BTreeSet::new(),
        })
    }

    /// Everything that is wrong now. What a GPU needs is told as an audit tells it, with the GPUs that are
    /// watched as those that may be proposed.
    pub(super) fn found(&self, state: &State) -> Vec<Finding> {
        let devices = self.facts.devices.values();
        let candidates: Vec<String> = devices.map(|device| device.name.clone()).collect();
        let market = Market::new(&self.loaded.catalogue, &candidates, &BTreeMap::new());
        let sizing = Sizing {
            rules: &self.rules,
            market: &market,
        };
        findings(state, &self.limits, &self.facts, Some(&sizing))
    }

    /// Looks products and models up that were not seen before.
    pub(super) fn learn(&mut self, state: &State) {
        for ((_, model, _), _) in state.replicas() {
            let Some(model) = model
                .as_ref()
                .filter(|one| !self.facts.weights.contains_key(*one))
            else {
                continue;
            };
            let weights = usage_rules::weights(model, &self.loaded);
            self.facts.weights.insert(model.clone(), weights);
        }
        for row in state.rows() {
            let Some(product) = &row.subject.gpu.product else {
                continue;
            };
            if self.asked.contains(product) {
                continue;
            }
            self.asked.insert(product.clone());
            let catalogue = &self.loaded.catalogue;
            if let Some(gpu) = catalogue.gpu(product) {
                self.facts.devices.insert(
                    product.clone(),
                    DeviceFacts {
                        name: gpu.name.clone(),
                        multiprocessors: gpu.units,
                        profiles: catalogue.mig_profiles(gpu).cloned().collect(),
                    },
                );
            }
        }
    }
}

fn field_names(loaded: &Loaded, flags: &Flags) -> anyhow::Result<FieldNames> {
    let mut names = profiles::beside::field_names(loaded)?;
    if let Some(path) = &flags.names {
        names.add_fields(&path.display().to_string(), &read(path)?)?;
    }
    Ok(names)
}

/// Thresholds of the catalogue, of the user's catalogue and of `--thresholds`; later ones win.
fn thresholds(loaded: &Loaded, flags: &Flags) -> anyhow::Result<Thresholds> {
    let mut limits: Option<Thresholds> = None;
    let named = flags.thresholds.as_deref();
    let named = named
        .map(|path| anyhow::Ok((path.display().to_string(), read(path)?)))
        .transpose()?;
    let named = named
        .iter()
        .map(|(file, text)| (file.as_str(), text.as_str()));
    for (file, text) in catalogue::files(loaded, OwnRows::TelemetryThresholds).chain(named) {
        let own = read_thresholds(file, text)?;
        limits = Some(match limits {
            Some(known) => known_thresholds(file, own, known)?,
            None => own,
        });
    }
    Ok(limits.unwrap_or_default())
}

fn known_thresholds(file: &str, own: Thresholds, known: Thresholds) -> anyhow::Result<Thresholds> {
    let unknown = own.rows.keys().find(|name| !known.rows.contains_key(*name));
    if let Some(unknown) = unknown {
        let names: Vec<&str> = known.rows.keys().map(String::as_str).collect();
        return Err(
            Problem::new(format!("{file}: no rule has a threshold {unknown:?}"))
                .hint(format!("there are {}", names.join(", ")))
                .into(),
        );
    }
    Ok(known.with(own))
}

pub(super) fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).map_err(|error| {
        Problem::new(format!("cannot read {}", path.display()))
            .because(error)
            .into()
    })
}
