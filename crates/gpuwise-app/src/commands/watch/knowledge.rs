//! What is known beforehand: names, thresholds, error codes, devices.

use super::{Context, Flags};
use crate::{
    catalogue::{self, Loaded},
    error::Problem,
    usage_rules,
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

const FIELDS: &str = include_str!("../../../../../catalogue/telemetry_fields.csv");
const DCGM: &str = include_str!("../../../../../catalogue/telemetry_dcgm.csv");
const THRESHOLDS: &str = include_str!("../../../../../catalogue/telemetry.toml");
const XIDS: &str = include_str!("../../../../../catalogue/telemetry_xid.csv");

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
        let mut names = FieldNames::default();
        names.add_fields("catalogue/telemetry_fields.csv", FIELDS)?;
        names.add_dcgm("catalogue/telemetry_dcgm.csv", DCGM)?;
        if let Some(path) = &flags.names {
            names.add_fields(&path.display().to_string(), &read(path)?)?;
        }
        let mut limits = read_thresholds("catalogue/telemetry.toml", THRESHOLDS)?;
        if let Some(path) = &flags.thresholds {
            let own = read_thresholds(&path.display().to_string(), &read(path)?)?;
            if let Some(unknown) = own
                .rows
                .keys()
                .find(|name| !limits.rows.contains_key(*name))
            {
                let known: Vec<&str> = limits.rows.keys().map(String::as_str).collect();
                return Err(Problem::new(format!(
                    "{}: no rule has a threshold {unknown:?}",
                    path.display()
                ))
                .hint(format!("there are {}", known.join(", ")))
                .into());
            }
            limits = limits.with(own);
        }
        Ok(Self {
            names,
            limits,
            facts: Facts {
                xids: read_xids("catalogue/telemetry_xid.csv", XIDS)?,
                ..Facts::default()
            },
            rules: usage_rules::thresholds(flags.rules.as_deref())?,
            loaded: catalogue::load(&context.app.overrides)?,
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
            let Some(model) = model.as_ref().filter(|one| !self.facts.weights.contains_key(*one))
            else {
                continue;
            };
            let weights = usage_rules::weights(model, &self.loaded.models);
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

pub(super) fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).map_err(|error| {
        Problem::new(format!("cannot read {}", path.display()))
            .because(error)
            .into()
    })
}
