//! Assumptions of a bill: shipped rows, rows of the user's, flags; later ones win.

use super::subject::Subject;
use crate::{
    catalogue::{self, Loaded, OwnRows},
    error::Problem,
    settings::MoneyFlags,
};
use gpuwise_domain::bill::{CostInput, CostKey, CostRow, CostUnit, Month};
use gpuwise_read::{
    bill as read,
    catalogue::{cost_key, read_costs},
};
use gpuwise_units::{Currency, Fraction};
use std::fs;

/// What a figure of a flag comes from.
const GIVEN: &str = "as given";

/// Assumptions, each key once.
#[derive(Debug)]
pub(super) struct Assumptions {
    rows: Vec<CostRow>,
    currency: Currency,
    notes: Vec<String>,
}

impl Assumptions {
    /// Everything but what is said about time.
    pub(super) fn new(
        flags: &MoneyFlags,
        subject: &Subject,
        currency: Currency,
        loaded: &Loaded,
    ) -> anyhow::Result<Self> {
        let mut out = Self {
            rows: Vec::new(),
            currency,
            notes: Vec::new(),
        };
        for (file, text) in catalogue::files(loaded, OwnRows::Costs) {
            out.add_all(read_costs(file, text)?, subject);
        }
        for row in &subject.rows {
            out.put(row.clone());
        }
        out.power(subject);
        if let Some(path) = &flags.assumptions {
            let shown = path.display().to_string();
            let text = fs::read_to_string(path).map_err(|error| {
                Problem::new(format!("cannot read assumptions {shown}"))
                    .because(error)
                    .hint("`gpuwise example tco.toml` prints one")
            })?;
            out.add_all(read_costs(&shown, &text)?, subject);
        }
        for (flag, key, text) in [
            ("--capital", CostKey::Capital, &flags.capital),
            ("--on-demand", CostKey::OnDemand, &flags.on_demand),
            ("--reserved", CostKey::Reserved, &flags.reserved),
            ("--spot", CostKey::Spot, &flags.spot),
            ("--duty", CostKey::Duty, &flags.duty),
            ("--grid", CostKey::Grid, &flags.grid),
        ] {
            if let Some(text) = text {
                out.flag(flag, key, text)?;
            }
        }
        for text in &flags.set {
            let (name, value) = text.split_once('=').ok_or_else(|| {
                Problem::new(format!("--set {text}: no `=`")).hint("such as --set pue=1.2")
            })?;
            let key = cost_key(name).map_err(|why| Problem::new(format!("--set: {why}")))?;
            out.flag("--set", key, value)?;
        }
        // What only helps to find the power of a host is no line of the bill.
        out.rows
            .retain(|row| !matches!(row.input.key, CostKey::PowerShare | CostKey::HostPower));
        Ok(out)
    }

    /// Rows of a file: those of a GPU count for its hosts alone; those of so many GPUs by the GPU.
    fn add_all(&mut self, rows: Vec<CostRow>, subject: &Subject) {
        for mut row in rows {
            if row
                .gpu
                .as_ref()
                .is_some_and(|gpu| Some(gpu) != subject.gpu.as_ref())
            {
                continue;
            }
            let whole = Fraction::whole(row.gpus.into());
            let of_a_host = row.gpu.is_some() || row.gpus > 1;
            if of_a_host && whole != subject.gpus_per_host {
                if row.input.key == CostKey::Capital {
                    self.notes.push(format!(
                        "A host's price is that of a host of {} GPUs, by the GPU: give --capital for what a host of {} costs.",
                        row.gpus,
                        subject.gpus_per_host.plain(3)
                    ));
                }
                let scale =
                    |figure: Fraction| figure.times(subject.gpus_per_host)?.over(whole)?.rounded(6);
                let input = &mut row.input;
                let ends = [input.low, input.value, input.high].map(scale);
                if let [Some(low), Some(value), Some(high)] = ends {
                    (input.low, input.value, input.high) = (low, value, high);
                }
            }
            self.put(row);
        }
    }

    /// The mean power of a host, from that of its GPUs or from its largest.
    fn power(&mut self, subject: &Subject) {
        let of = |rows: &[CostRow], key| {
            let found = rows.iter().find(|row: &&CostRow| row.input.key == key);
            found.map(|row| row.input.clone())
        };
        let host = of(&self.rows, CostKey::HostPower);
        self.largest_power(subject, host.as_ref());
        let peak = of(&self.rows, CostKey::PeakPower);
        let share = of(&self.rows, CostKey::PowerShare);
        let known = match (&subject.gpu_power, host, peak, share) {
            (Some(gpus), Some(host), _, _) => {
                let sum = |gpus: Fraction, host: Fraction| {
                    gpus.plus(host.times(subject.gpus_per_host)?)?.rounded(6)
                };
                let source = format!(
                    "GPUs at the load of today, as sized, and {} kW beside each ({})",
                    host.value.plain(3),
                    host.source
                );
                let [low, value, high] = [
                    sum(gpus[0], host.low),
                    sum(gpus[1], host.value),
                    sum(gpus[2], host.high),
                ];
                Some((low, value, high, source))
            }
            (None, _, Some(peak), Some(share)) => {
                let part = |share: Fraction| peak.value.times(share)?.rounded(6);
                let source = format!(
                    "{} of the largest power ({})",
                    share.value.plain(3),
                    share.source
                );
                Some((part(share.low), part(share.value), part(share.high), source))
            }
            _ => None,
        };
        if let Some((Some(low), Some(value), Some(high), source)) = known {
            self.put(without_day(CostKey::Power, [low, value, high], source));
        }
    }

    /// The largest power of a host that the catalogue does not have: the limit of its GPUs, and the
    /// most that is beside each.
    fn largest_power(&mut self, subject: &Subject, host: Option<&CostInput>) {
        let (Some(limit), Some(host)) = (subject.gpu_limit, host) else {
            return;
        };
        let most = limit.plus(host.high);
        let most = most.and_then(|most| most.times(subject.gpus_per_host)?.rounded(6));
        if let Some(most) = most {
            let source = format!(
                "limit of the GPUs, and {} kW beside each ({})",
                host.high.plain(3),
                host.source
            );
            self.put(without_day(CostKey::PeakPower, [most; 3], source));
        }
    }

    pub(super) fn flag(&mut self, flag: &str, key: CostKey, text: &str) -> anyhow::Result<()> {
        let given = read::assumption(key, text)
            .map_err(|error| Problem::new(format!("{flag}: {error}")))?;
        let source = if key == CostKey::Growth && text.contains("/y") {
            format!("{GIVEN}: {text}, of which a month has the twelfth root")
        } else {
            GIVEN.into()
        };
        self.put(CostRow {
            currency: given.currency,
            ..without_day(key, [given.low, given.value, given.high], source)
        });
        Ok(())
    }

    fn put(&mut self, row: CostRow) {
        self.leave_out(row.input.key);
        self.rows.push(row);
    }

    /// Without an assumption.
    pub(super) fn leave_out(&mut self, key: CostKey) {
        self.rows.retain(|known| known.input.key != key);
    }

    pub(super) fn newest(&self) -> Option<Month> {
        self.rows
            .iter()
            .filter_map(|row| Month::from_text(&row.input.date))
            .max()
    }

    /// What is carried on beyond the time for which it is known, and what was assumed.
    pub(super) fn notes(&self, start: Month, horizon: u32) -> Vec<String> {
        let mut out = self.notes.clone();
        let end = start.after(i64::from(horizon) - 1);
        let owns = self
            .rows
            .iter()
            .any(|row| row.input.key == CostKey::Capital);
        let mut beyond: Vec<(Month, String)> = self
            .rows
            .iter()
            .filter(|row| owns || !for_owning(row.input.key))
            .filter_map(|row| {
                let of = Month::from_text(&row.input.date)?;
                let until = of.after(row.valid_months?.into());
                let text = format!("{} (of {of}, until {until})", row.input.key.what());
                (until < end).then_some((until, text))
            })
            .collect();
        beyond.sort();
        if let Some((first, _)) = beyond.first() {
            let names: Vec<&str> = beyond.iter().map(|(_, text)| text.as_str()).collect();
            out.push(format!(
                "Extrapolated from {} on, as if today's figures held: {}.",
                first.after(1).max(start),
                names.join(", ")
            ));
        }
        out
    }

    /// All of them, in one currency.
    pub(super) fn into_inputs(self) -> anyhow::Result<Vec<CostInput>> {
        let other: Vec<&CostRow> = self
            .rows
            .iter()
            .filter(|row| {
                row.currency
                    .is_some_and(|currency| currency != self.currency)
            })
            .collect();
        if let Some(first) = other.first() {
            let described: Vec<String> = other
                .iter()
                .filter_map(|row| Some(format!("{} in {}", row.input.key.what(), row.currency?)))
                .collect();
            let CostUnit::Money(_) = first.input.key.unit() else {
                return Ok(self.rows.into_iter().map(|row| row.input).collect());
            };
            let set: Vec<String> = other
                .iter()
                .map(|row| format!("--set {}=…{}", row.input.key.name(), self.currency))
                .collect();
            return Err(Problem::new(format!(
                "the bill is in {}, but {}: currencies are never added",
                self.currency,
                described.join(", ")
            ))
            .hint(format!(
                "give them in {}, at a rate of your choice: {}",
                self.currency,
                set.join(" ")
            ))
            .hint("or name the currency of them all with --currency")
            .into());
        }
        Ok(self.rows.into_iter().map(|row| row.input).collect())
    }
}

/// A row of no day and no GPU.
fn without_day(key: CostKey, [low, value, high]: [Fraction; 3], source: String) -> CostRow {
    CostRow {
        input: CostInput {
            key,
            low,
            value,
            high,
            date: String::new(),
            source,
        },
        currency: None,
        gpu: None,
        gpus: 1,
        valid_months: None,
    }
}

/// Whether an assumption matters only where hosts are owned.
const fn for_owning(key: CostKey) -> bool {
    matches!(
        key,
        CostKey::Network
            | CostKey::Spares
            | CostKey::Life
            | CostKey::Residual
            | CostKey::Support
            | CostKey::Energy
            | CostKey::Space
            | CostKey::Staff
    )
}
