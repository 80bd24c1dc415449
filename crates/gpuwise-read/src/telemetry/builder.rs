//! Puts readings together, whatever the tool: subjects once each, fields by name, and nothing lost
//! without a word.

use super::{
    fields::{Combine, Field, FieldNames},
    value,
};
use gpuwise_domain::telemetry::{
    GpuIdentity, Missing, Quantity, Reading, ReadingValue, Subject, Telemetry, UnusedField,
};
use rustc_hash::FxHashMap;

/// Subjects of one source; a page of a fleet has some ten thousand.
const MOST_SUBJECTS: usize = 2_000_000;

pub(super) struct Builder<'n> {
    pub(super) names: &'n FieldNames,
    pub(super) out: Telemetry,
    keys: FxHashMap<Subject, u32>,
    unread: FxHashMap<String, usize>,
    slots: FxHashMap<(u32, Quantity), usize>,
    /// Time of the readings that follow.
    pub(super) at: Option<f64>,
}

impl<'n> Builder<'n> {
    pub(super) fn new(names: &'n FieldNames, form: &str) -> Self {
        Self {
            names,
            out: Telemetry {
                form: form.into(),
                ..Telemetry::default()
            },
            keys: FxHashMap::default(),
            unread: FxHashMap::default(),
            slots: FxHashMap::default(),
            at: None,
        }
    }

    /// The place of a subject; an equal one is kept once.
    pub(super) fn subject(&mut self, subject: &Subject) -> u32 {
        if let Some(place) = self.keys.get(subject) {
            return *place;
        }
        if self.out.subjects.len() >= MOST_SUBJECTS {
            self.problem(
                "subjects",
                "",
                "more than can be held; the rest is left out",
            );
            return u32::MAX;
        }
        let place = self.out.subjects.len() as u32;
        self.keys.insert(subject.clone(), place);
        self.out.subjects.push(subject.clone());
        place
    }

    /// A new time: quantities may stand again.
    pub(super) fn moment(&mut self, at: Option<f64>) {
        self.at = at;
        self.slots.clear();
    }

    /// A field as text; one that is no reading is listed.
    pub(super) fn field(&mut self, vocabulary: &str, subject: u32, name: &str, text: &str) {
        match self.names.field(vocabulary, name) {
            Some(field) => {
                let read = value::value(text, field);
                if read == ReadingValue::Unknown(Missing::NotANumber) {
                    self.problem(name, text, "not a number of the expected unit");
                }
                let field = field.clone();
                self.put(subject, &field, read);
            }
            None => self.unread(name, text),
        }
    }

    pub(super) fn put(&mut self, subject: u32, field: &Field, read: ReadingValue) {
        let key = (subject, field.quantity);
        let Some(&place) = self.slots.get(&key) else {
            self.slots.insert(key, self.out.readings.len());
            self.out.readings.push(Reading {
                subject,
                at: self.at,
                quantity: field.quantity,
                value: read,
            });
            return;
        };
        let Some(reading) = self.out.readings.get_mut(place) else {
            return;
        };
        reading.value = match (reading.value, read, field.combine) {
            (ReadingValue::Unknown(_), known @ ReadingValue::Known(_), _) => known,
            (ReadingValue::Known(a), ReadingValue::Known(b), Combine::Sum) => {
                ReadingValue::Known(a + b)
            }
            (ReadingValue::Known(a), ReadingValue::Known(b), Combine::Bits) => {
                ReadingValue::Known((a as u64 | b as u64) as f64)
            }
            (before, _, _) => before,
        };
    }

    /// A field that is no reading.
    pub(super) fn unread(&mut self, field: &str, example: &str) {
        self.list(field, example, None);
    }

    /// A field or line that could not be read.
    pub(super) fn problem(&mut self, field: &str, example: &str, problem: &str) {
        self.list(field, example, Some(problem));
    }

    fn list(&mut self, field: &str, example: &str, problem: Option<&str>) {
        if let Some(&place) = self.unread.get(field) {
            if let Some(known) = self.out.unread.get_mut(place) {
                known.count += 1;
                if known.problem.is_none() {
                    known.problem = problem.map(String::from);
                }
            }
            return;
        }
        self.unread.insert(field.into(), self.out.unread.len());
        self.out.unread.push(UnusedField {
            field: field.into(),
            count: 1,
            example: example.chars().take(60).collect(),
            problem: problem.map(String::from),
        });
    }

    pub(super) fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.out.notes.contains(&text) {
            self.out.notes.push(text);
        }
    }

    /// The telemetry, with the reason where MIG hides what a whole GPU did.
    pub(super) fn finish(mut self) -> Telemetry {
        let mut divided = vec![false; self.out.subjects.len()];
        for reading in &self.out.readings {
            if reading.quantity == Quantity::MigMode
                && reading.value.known() == Some(1.0)
                && let Some(flag) = divided.get_mut(reading.subject as usize)
            {
                *flag = true;
            }
        }
        for reading in &mut self.out.readings {
            let whole = divided.get(reading.subject as usize).copied() == Some(true);
            if whole
                && reading.quantity.unit() == "ratio"
                && matches!(
                    reading.value,
                    ReadingValue::Unknown(Missing::NotAvailable | Missing::Blank)
                )
                && reading.quantity != Quantity::FanSpeed
            {
                reading.value = ReadingValue::Unknown(Missing::MigMode);
            }
        }
        self.out
    }
}

/// A GPU by its number and product.
pub(super) fn gpu(index: Option<u32>) -> GpuIdentity {
    GpuIdentity {
        index,
        ..GpuIdentity::default()
    }
}

/// A text that says something.
pub(super) fn said(text: &str) -> Option<String> {
    let text = text.trim();
    (value::missing(text).is_none()).then(|| text.to_owned())
}
