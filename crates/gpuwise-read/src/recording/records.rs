//! Records with a time each: rows of a table, objects of JSON.

use super::{
    FORMS, RecordingError,
    gathered::Gathered,
    meaning::{self, Meaning},
    names::{Known, TIMES},
    time,
};
use crate::telemetry::{FieldNames, value_of};
use gpuwise_domain::{
    profile::joined::{HostQuantity, RecordedGroup, RecordedMetric, Recording, RecordingClock},
    telemetry::{GpuIdentity, ReadingValue, Subject},
};
use std::collections::BTreeMap;

/// A value of a record.
#[derive(Debug, Clone, Copy)]
pub(super) enum Field<'a> {
    Text(&'a str),
    Number(f64),
}

impl Field<'_> {
    fn number(self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(number),
            Self::Text(text) => {
                let text = text.trim().trim_end_matches('%').trim();
                text.parse().ok()
            }
        }
    }

    fn text(self) -> String {
        match self {
            Self::Text(text) => text.trim().to_owned(),
            Self::Number(number) => number.to_string(),
        }
    }
}

/// Records of one file.
pub(super) struct Records<'n> {
    names: &'n FieldNames,
    meanings: BTreeMap<String, Meaning>,
    pub(super) gathered: Gathered,
    /// Rows of cores, beside those of all cores.
    cores: u64,
    untimed: u64,
    first_untimed: usize,
    /// Shares whose unit no header states.
    guessed: Vec<RecordedMetric>,
    sysstat: bool,
}

impl<'n> Records<'n> {
    pub(super) fn new(names: &'n FieldNames) -> Self {
        Self {
            names,
            meanings: BTreeMap::new(),
            gathered: Gathered::default(),
            cores: 0,
            untimed: 0,
            first_untimed: 0,
            guessed: Vec::new(),
            sysstat: false,
        }
    }

    /// Columns of sysstat name a core `CPU`; elsewhere that is its use.
    pub(super) fn sysstat(&mut self) {
        self.sysstat = true;
    }

    fn meaning(&mut self, name: &str) -> Meaning {
        if let Some(known) = self.meanings.get(name) {
            return known.clone();
        }
        let meaning = meaning::of(name, self.names, self.sysstat);
        if let Meaning::Known(known) = &meaning
            && known.guessed
        {
            self.guessed.push(known.metric.clone());
        }
        self.meanings.insert(name.to_owned(), meaning.clone());
        meaning
    }

    /// One record, its fields by name.
    pub(super) fn row(
        &mut self,
        line: usize,
        fields: &[(&str, Field<'_>)],
    ) -> Result<(), RecordingError> {
        let meanings: Vec<Meaning> = fields.iter().map(|(name, _)| self.meaning(name)).collect();
        let of = |wanted: fn(&Meaning) -> bool| {
            let place = meanings.iter().position(wanted)?;
            fields.get(place).copied()
        };
        let (time, date) = (
            of(|one| matches!(one, Meaning::Time)),
            of(|one| matches!(one, Meaning::Date)),
        );
        let step = of(|one| matches!(one, Meaning::Step));
        let Some((column, at_ns)) = self.when(line, time, date, step)? else {
            self.untimed += 1;
            if self.untimed == 1 {
                self.first_untimed = line;
            }
            return Ok(());
        };
        if let Some((_, core)) = of(|one| matches!(one, Meaning::Core))
            && !matches!(core.text().as_str(), "-1" | "all")
        {
            self.cores += 1;
            return Ok(());
        }
        let subject = Subject::of(GpuIdentity {
            host: of(|one| matches!(one, Meaning::Host)).map(|(_, field)| field.text()),
            index: of(|one| matches!(one, Meaning::Gpu))
                .and_then(|(_, field)| field.number())
                .map(|number| number as u32),
            uuid: of(|one| matches!(one, Meaning::Uuid)).map(|(_, field)| field.text()),
            ..GpuIdentity::default()
        });
        let part = of(|one| matches!(one, Meaning::Part)).map(|(_, field)| field.text());
        let at = Some((line, column.as_str()));
        let waits = meanings
            .iter()
            .zip(fields)
            .find_map(|(meaning, (_, field))| match meaning {
                Meaning::Known(known)
                    if known.metric == RecordedMetric::Host(HostQuantity::CpuIowait) =>
                {
                    Some(field.number()? * known.scale)
                }
                _ => None,
            });
        for (meaning, (name, field)) in meanings.iter().zip(fields) {
            let (metric, value) = match meaning {
                Meaning::Reading(field_of) => {
                    let value = field.number().map(|number| value_of(number, field_of));
                    let Some(value) = value.and_then(ReadingValue::known) else {
                        continue;
                    };
                    (RecordedMetric::Gpu(field_of.quantity), value)
                }
                Meaning::Idle => {
                    let Some(idle) = field.number() else { continue };
                    let used = 1.0 - idle / 100.0 - waits.unwrap_or(0.0);
                    (
                        RecordedMetric::Host(HostQuantity::CpuUtil),
                        if used < 0.0 { 0.0 } else { used },
                    )
                }
                Meaning::Known(known) => {
                    let Some(value) = Self::number(line, name, *field, known)? else {
                        continue;
                    };
                    (known.metric.clone(), value * known.scale)
                }
                _ => continue,
            };
            if !value.is_finite() && !matches!(metric, RecordedMetric::Application(_)) {
                continue;
            }
            if matches!(metric, RecordedMetric::Gpu(_)) {
                self.gathered.push_gpu(metric, &subject, at_ns, value, at)?;
                continue;
            }
            let gpu = match (&metric, subject.gpu.index) {
                (RecordedMetric::Other(..), Some(index)) => Some(format!("GPU {index}")),
                _ => None,
            };
            let whose = [subject.gpu.host.clone(), part.clone(), gpu];
            let of = whose.into_iter().flatten().collect::<Vec<_>>().join(" ");
            self.gathered.push(metric, (of, None), at_ns, value, at)?;
        }
        Ok(())
    }

    /// The number of a field. Text is of no series where nothing is known by that name.
    fn number(
        line: usize,
        name: &str,
        field: Field<'_>,
        known: &Known,
    ) -> Result<Option<f64>, RecordingError> {
        let number = field.number();
        let text = field.text();
        let none = text.is_empty()
            || ["-", "n/a", "null", "none"].contains(&text.to_ascii_lowercase().as_str());
        if number.is_none() && !none && !matches!(known.metric, RecordedMetric::Other(..)) {
            let what = format!("{text:?} is no number");
            return Err(RecordingError::at(line, name, what).hint("leave what is not known empty"));
        }
        // A loss that is NaN says something; a counter that is says nothing.
        let told = matches!(known.metric, RecordedMetric::Application(_));
        Ok(number.filter(|number| told || number.is_finite()))
    }

    /// When a record is of, and the column that says so.
    fn when(
        &mut self,
        line: usize,
        time: Option<(&str, Field<'_>)>,
        date: Option<(&str, Field<'_>)>,
        step: Option<(&str, Field<'_>)>,
    ) -> Result<Option<(String, i64)>, RecordingError> {
        let timed = match (time, date) {
            (Some((name, time)), Some((_, date))) if !time.text().contains('-') => {
                Some((name, format!("{} {}", date.text(), time.text())))
            }
            (Some((name, time)), _) => Some((name, time.text())),
            (None, Some((name, date))) => Some((name, date.text())),
            (None, None) => None,
        };
        let Some((name, text)) = timed.filter(|(_, text)| !text.is_empty()) else {
            let Some((name, step)) = step else {
                return Ok(None);
            };
            let Some(number) = step.number() else {
                return Ok(None);
            };
            self.gathered
                .clock(Some(line), name, RecordingClock::Steps)?;
            return Ok(Some((name.to_owned(), number as i64)));
        };
        let Some((at_ns, clock)) = time::of_text(&text) else {
            let what = format!("{text:?} is no time");
            return Err(RecordingError::at(line, name, what)
                .hint("write it as 2026-07-14T09:00:00Z, or in seconds since 1970"));
        };
        self.gathered.clock(Some(line), name, clock)?;
        Ok(Some((name.to_owned(), at_ns)))
    }

    pub(super) fn finish(mut self, form: &str) -> Result<Recording, RecordingError> {
        if self.gathered.is_empty() && self.untimed > 0 {
            let mut columns: Vec<&str> = self.meanings.keys().map(String::as_str).collect();
            columns.sort_unstable();
            columns.truncate(12);
            let what = format!(
                "no column says when: it has {}; known are {}, or step",
                columns.join(", "),
                TIMES.join(", ")
            );
            return Err(RecordingError::at(self.first_untimed, "", what).hint(FORMS));
        }
        if self.untimed > 0 {
            let what = format!(
                "{} records without a time are left out, the first in line {}",
                self.untimed, self.first_untimed
            );
            self.gathered.notes.push(what);
        }
        if self.cores > 0 {
            self.gathered
                .notes
                .push("rows of single cores are left out".into());
        }
        let mut recording = self.gathered.finish(form.to_owned());
        for series in &mut recording.series {
            let most = series
                .samples
                .iter()
                .map(|sample| sample.value)
                .fold(0.0, f64::max);
            if self.guessed.contains(&series.metric) && most > 1.5 {
                for sample in &mut series.samples {
                    sample.value /= 100.0;
                }
                let name = series.metric.name();
                let what = format!("`{name}` exceeds 1 and is taken as percent");
                if !recording.notes.contains(&what) {
                    recording.notes.push(what);
                }
            }
        }
        Ok(recording)
    }
}

/// What nothing is concluded from is the host's where the file has only the host's beside it.
pub(super) fn grouped(recording: &mut Recording) {
    let groups: Vec<RecordedGroup> = recording
        .series
        .iter()
        .filter(|one| !matches!(one.metric, RecordedMetric::Other(..)))
        .map(|one| one.metric.group())
        .collect();
    let Some(first) = groups
        .first()
        .filter(|first| groups.iter().all(|one| one == *first))
    else {
        return;
    };
    for series in &mut recording.series {
        if let RecordedMetric::Other(group, _) = &mut series.metric {
            *group = *first;
        }
    }
}
