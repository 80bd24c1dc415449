//! One aggregate of one metric: how it is asked for, and asked again in parts where it is too much.

use super::{
    Settings,
    select::{one_of, selector},
};
use crate::prometheus::{Client, PrometheusError, Series};
use gpuwise_domain::usage::vocabulary::{Quantity, Vocabulary};
use std::collections::BTreeSet;

/// What no sample of a quantity reaches, in its own unit: exporters write numbers far beyond it for
/// unknown (`DCGM_INT32_BLANK`, `DCGM_INT64_BLANK` of dcgm_structs.h).
fn beyond(quantity: Quantity) -> f64 {
    match quantity {
        // Ten TiB, in MiB.
        Quantity::MemoryUsed => 1e7,
        quantity if is_device(quantity) => 1.5,
        _ => 1e15,
    }
}

/// Namespaces that are named one by one; with more, all are asked.
const MOST_NAMED: usize = 300;
/// Pods whose samples are asked for again where they hold what is no number.
const AGAIN_AT_ONCE: usize = 100;
/// Pods that are named in one query.
const NAMED_AT_ONCE: usize = 400;

gpuwise_units::named! {
    /// How samples of the window become one figure, or one an hour.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Aggregate:
        title
    {
        /// The largest of each hour.
        HourlyMax = "hourly maxima of",
        Average = "averages of",
        P95 = "95th percentiles of",
        Max = "maxima of",
        /// What a counter grew by, resets seen.
        Increase = "growth of",
        /// The last, with its labels.
        Last = "last values of",
    }
}

/// One query to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    pub quantity: Quantity,
    pub aggregate: Aggregate,
    pub metric: String,
    /// By what values are multiplied.
    pub scale: f64,
}

/// Whom and what a series is about; empty where no label says it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Place {
    pub namespace: String,
    /// Its pod; empty for a device that nobody holds.
    pub pod: String,
    pub job: String,
    pub host: String,
    pub device: String,
    pub instance: String,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    One(f64),
    /// One an hour; NaN where nothing came.
    Hours(Vec<f32>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub place: Place,
    pub container: String,
    pub model: String,
    pub slice: String,
    /// All labels, of rows that are not about devices.
    pub labels: Vec<(String, String)>,
    pub values: Values,
}

impl Row {
    pub fn label(&self, name: &str) -> &str {
        let found = self.labels.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }
}

/// Under which name the tenant's label is kept.
pub(super) const TENANT: &str = "gpuwise_tenant";

/// Rows, and what is to be said of them.
type Answer = (Vec<Row>, Vec<String>);

/// Asks one server for one fleet.
pub(super) struct Asker<'a> {
    client: &'a Client,
    vocabulary: &'a Vocabulary,
    settings: &'a Settings,
    matchers: Vec<String>,
}

impl<'a> Asker<'a> {
    pub(super) fn new(
        client: &'a Client,
        vocabulary: &'a Vocabulary,
        settings: &'a Settings,
    ) -> Self {
        Self {
            client,
            vocabulary,
            settings,
            matchers: settings.matchers.iter().cloned().collect(),
        }
    }

    /// Only these namespaces, as those exporters call them that are not about devices.
    pub(super) fn within(mut self, namespaces: &BTreeSet<String>) -> Self {
        if !namespaces.is_empty() && namespaces.len() <= MOST_NAMED {
            self.matchers
                .push(one_of("namespace", namespaces.iter().map(String::as_str)));
        }
        self
    }

    pub(super) fn at_once(&self) -> usize {
        self.settings.at_once.max(1)
    }

    /// Metrics of the vocabulary that are there.
    pub(super) fn present(&self) -> Result<BTreeSet<String>, PrometheusError> {
        let window = self.settings.window;
        let names = one_of(
            "__name__",
            self.vocabulary
                .metrics
                .iter()
                .map(|row| row.metric.as_str()),
        );
        let selector = selector("", &[vec![names], self.matchers.clone()].concat());
        Ok(self
            .client
            .label_values("__name__", Some(&selector), window.start, window.end)?
            .into_iter()
            .collect())
    }

    pub(super) fn tasks(
        &self,
        quantity: Quantity,
        aggregate: Aggregate,
        present: &BTreeSet<String>,
    ) -> Vec<Task> {
        let rows = self
            .vocabulary
            .of(quantity)
            .filter(|row| present.contains(&row.metric));
        rows.map(|row| Task {
            quantity,
            aggregate,
            metric: row.metric.clone(),
            scale: row.scale,
        })
        .collect()
    }

    /// Carries a task out for these pods alone, some at once.
    pub(super) fn answer_of(
        &self,
        task: &Task,
        pods: &BTreeSet<(String, String)>,
    ) -> Result<Answer, PrometheusError> {
        let names: BTreeSet<&str> = pods.iter().map(|(_, pod)| pod.as_str()).collect();
        let names: Vec<&str> = names.into_iter().collect();
        let (mut rows, mut notes) = (Vec::new(), Vec::new());
        for part in names.chunks(NAMED_AT_ONCE) {
            // Which label holds the pod differs between exporters.
            for label in &self.vocabulary.pod {
                let matcher = one_of(label, part.iter().copied());
                let mut answer = self.in_parts(task, &[matcher], 0)?;
                self.again(task, &mut answer)?;
                rows.extend(answer.0);
                notes.extend(answer.1);
            }
        }
        rows.retain(|row| pods.contains(&(row.place.namespace.clone(), row.place.pod.clone())));
        Ok((rows, notes))
    }

    /// Carries a task out, in parts where it is too much at once.
    pub(super) fn answer(&self, task: &Task) -> Result<Answer, PrometheusError> {
        let mut answer = self.in_parts(task, &[], 0)?;
        if matches!(
            task.aggregate,
            Aggregate::Average | Aggregate::P95 | Aggregate::Increase
        ) {
            self.again(task, &mut answer)?;
        }
        Ok(answer)
    }

    fn in_parts(
        &self,
        task: &Task,
        part: &[String],
        depth: u32,
    ) -> Result<Answer, PrometheusError> {
        let matchers = [self.matchers.as_slice(), part].concat();
        match self.once(task, &selector(&task.metric, &matchers)) {
            Err(error) if error.may_be_split() && depth < 12 => {
                let Some((label, values)) = self.halves(task, &matchers)? else {
                    return Err(error);
                };
                let middle = values.len() / 2;
                let (mut rows, mut notes) = (Vec::new(), Vec::new());
                for half in [values.get(..middle), values.get(middle..)]
                    .into_iter()
                    .flatten()
                {
                    let mut part = part.to_vec();
                    part.push(one_of(&label, half.iter().map(String::as_str)));
                    let (more, said) = self.in_parts(task, &part, depth + 1)?;
                    rows.extend(more);
                    notes.extend(said);
                }
                Ok((rows, notes))
            }
            other => other,
        }
    }

    /// A label by whose values a query can be split, with the values: namespaces, then pods.
    fn halves(
        &self,
        task: &Task,
        matchers: &[String],
    ) -> Result<Option<(String, Vec<String>)>, PrometheusError> {
        let window = self.settings.window;
        let selector = selector(&task.metric, matchers);
        for label in self
            .vocabulary
            .namespace
            .iter()
            .chain(&self.vocabulary.pod)
            .chain(&self.vocabulary.device)
        {
            let values =
                self.client
                    .label_values(label, Some(&selector), window.start, window.end)?;
            if values.len() > 1 {
                return Ok(Some((label.clone(), values)));
            }
        }
        Ok(None)
    }

    fn once(&self, task: &Task, selector: &str) -> Result<Answer, PrometheusError> {
        let window = self.settings.window;
        let hours = window.hours();
        let mut rows = Vec::new();
        let answered = if task.aggregate == Aggregate::HourlyMax {
            let query = format!("max_over_time({selector}[1h])");
            self.client
                .range(&query, window.start + 3600, window.end, 3600, |series| {
                    rows.push(self.row(task, &series, hours));
                })?
        } else {
            let query = query(task.aggregate, selector, &format!("{hours}h"));
            self.client.instant(&query, Some(window.end), |series| {
                rows.push(self.row(task, &series, hours));
            })?
        };
        let notes = answered
            .warnings
            .iter()
            .map(|warning| format!("{}: the server warns: {warning}", task.metric));
        Ok((rows, notes.collect()))
    }

    /// Series with samples that are no numbers: asked once more without these samples.
    fn again(&self, task: &Task, answer: &mut Answer) -> Result<(), PrometheusError> {
        let most = beyond(task.quantity);
        let spoilt = |row: &Row| matches!(row.values, Values::One(value) if !value.is_finite() || value.abs() > most);
        let pods: BTreeSet<String> = answer
            .0
            .iter()
            .filter(|row| spoilt(row))
            .map(|row| row.place.pod.clone())
            .filter(|pod| !pod.is_empty())
            .collect();
        let labels = &self.vocabulary.pod;
        answer.0.retain(|row| !spoilt(row));
        let pods: Vec<&String> = pods.iter().collect();
        for part in pods.chunks(AGAIN_AT_ONCE) {
            // Which label holds the pod differs: the first that finds something.
            for label in labels {
                let mut matchers = self.matchers.clone();
                matchers.push(one_of(label, part.iter().map(|pod| pod.as_str())));
                let filtered = format!(
                    "({} < {})",
                    selector(&task.metric, &matchers),
                    most / task.scale
                );
                let hours = self.settings.window.hours();
                let query = query(task.aggregate, &filtered, &format!("{hours}h:5m"));
                let mut rows = Vec::new();
                self.client
                    .instant(&query, Some(self.settings.window.end), |series| {
                        rows.push(self.row(task, &series, hours));
                    })?;
                if !rows.is_empty() {
                    answer.0.extend(rows.into_iter().filter(|row| !spoilt(row)));
                    break;
                }
            }
        }
        Ok(())
    }

    fn row(&self, task: &Task, series: &Series<'_>, hours: usize) -> Row {
        let first = |labels: &[String]| {
            let mut found = labels.iter().filter_map(|label| series.label(label));
            found.next().unwrap_or("").to_owned()
        };
        let names = self.vocabulary;
        let container = first(&names.container);
        let about_device = is_device(task.quantity);
        // A device without a holder carries its exporter's own pod.
        let unheld = about_device && names.exporters.contains(&container);
        let of_holder = |labels: &[String]| if unheld { String::new() } else { first(labels) };
        let of_device = |labels: &[String]| {
            if about_device {
                first(labels)
            } else {
                String::new()
            }
        };
        Row {
            place: Place {
                namespace: of_holder(&names.namespace),
                pod: of_holder(&names.pod),
                job: of_device(&names.job),
                host: of_device(&names.host),
                device: of_device(&names.device),
                instance: of_device(&names.instance),
            },
            model: of_device(&names.model),
            slice: of_device(&names.slice),
            container: if unheld { String::new() } else { container },
            labels: if about_device {
                Vec::new()
            } else {
                self.kept(task, series)
            },
            values: self.values(task, series, hours),
        }
    }

    /// Labels of a row that is not about a device; the tenant's under a name of its own.
    fn kept(&self, task: &Task, series: &Series<'_>) -> Vec<(String, String)> {
        if task.quantity != Quantity::PodLabels {
            return series.labels.to_vec();
        }
        let wanted = self.settings.tenant_label.as_deref().unwrap_or("");
        let value = series
            .label(wanted)
            .or_else(|| series.label(&format!("label_{wanted}")));
        value
            .map(|value| (TENANT.to_owned(), value.to_owned()))
            .into_iter()
            .collect()
    }

    fn values(&self, task: &Task, series: &Series<'_>, hours: usize) -> Values {
        if task.aggregate != Aggregate::HourlyMax {
            return Values::One(series.value().unwrap_or(f64::NAN) * task.scale);
        }
        let mut out = vec![f32::NAN; hours];
        for point in series.points {
            let after = point.at_ms / 1000 - self.settings.window.start;
            let slot = usize::try_from(after / 3600 - 1)
                .ok()
                .and_then(|hour| out.get_mut(hour));
            let value = point.value * task.scale;
            if let Some(slot) = slot.filter(|_| value.abs() <= beyond(task.quantity)) {
                *slot = value as f32;
            }
        }
        Values::Hours(out)
    }
}

fn query(aggregate: Aggregate, selector: &str, range: &str) -> String {
    match aggregate {
        Aggregate::Average => format!("avg_over_time({selector}[{range}])"),
        Aggregate::P95 => format!("quantile_over_time(0.95, {selector}[{range}])"),
        Aggregate::Max | Aggregate::HourlyMax => format!("max_over_time({selector}[{range}])"),
        Aggregate::Increase => format!("increase({selector}[{range}])"),
        Aggregate::Last => format!("last_over_time({selector}[1h])"),
    }
}

/// Whether series of a quantity are about a device.
pub(super) fn is_device(quantity: Quantity) -> bool {
    matches!(
        quantity,
        Quantity::MemoryUsed
            | Quantity::SmActive
            | Quantity::EngineActive
            | Quantity::Utilisation
            | Quantity::TensorActive
            | Quantity::DramActive
    )
}
