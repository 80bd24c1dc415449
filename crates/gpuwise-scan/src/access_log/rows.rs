//! Lines of a log to requests.

use super::{
    AccessLog, AccessLogError, Entry,
    fields::{Field, Mapping},
    time,
};
use crate::table_error;
use crate::traffic::MOST_REQUESTS;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Lines that are looked at to find out where fields stand.
const LOOKED_AT: usize = 200;
/// Paths that are named where a field is missed.
const PATHS_NAMED: usize = 30;
/// Tenants and models that are told apart.
const MOST_NAMES: usize = 10_000;

/// A log before its fields are found.
pub(super) struct Rows<'a> {
    form: Form<'a>,
}

enum Form<'a> {
    Json(&'a [u8]),
    Csv {
        text: std::borrow::Cow<'a, str>,
        delimiter: u8,
        header: Vec<String>,
    },
}

/// Where each field stands.
pub(super) type Columns = Vec<(Field, String)>;

impl<'a> Rows<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Result<Self, AccessLogError> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let first = bytes
            .split(|byte| *byte == b'\n')
            .map(<[u8]>::trim_ascii)
            .find(|line| !line.is_empty())
            .ok_or_else(|| AccessLogError::Empty(": it is empty".into()))?;
        let json = bytes
            .split(|byte| *byte == b'\n')
            .take(LOOKED_AT)
            .any(|line| line.trim_ascii().starts_with(b"{"));
        if json {
            return Ok(Self {
                form: Form::Json(bytes),
            });
        }
        if first.starts_with(b"[") {
            return Err(AccessLogError::OtherKind(
                "it is one JSON list; expected an object on each line, as `jq -c '.[]'` writes them"
                    .into(),
            ));
        }
        let delimiter = [b',', b';', b'\t']
            .into_iter()
            .max_by_key(|delimiter| first.split(|byte| byte == delimiter).count())
            .filter(|delimiter| first.contains(delimiter));
        let Some(delimiter) = delimiter else {
            return Err(AccessLogError::OtherKind(format!(
                "it begins with {:?}; expected JSON objects, one a line, or CSV with a header",
                String::from_utf8_lossy(first)
                    .chars()
                    .take(60)
                    .collect::<String>()
            )));
        };
        let text = String::from_utf8_lossy(bytes);
        let header = reader(&text, delimiter)
            .headers()
            .map_err(|error| AccessLogError::OtherKind(table_error(&error, None)))?
            .iter()
            .map(Into::into)
            .collect();
        Ok(Self {
            form: Form::Csv {
                text,
                delimiter,
                header,
            },
        })
    }

    /// Every row as an object with the line that it stands on, or why it is none.
    fn each(&self, mut take: impl FnMut(u64, Result<Value, String>) -> bool) {
        match &self.form {
            Form::Json(bytes) => {
                for (number, line) in (1_u64..).zip(bytes.split(|byte| *byte == b'\n')) {
                    let line = line.trim_ascii();
                    if line.is_empty() {
                        continue;
                    }
                    let row = match serde_json::from_slice(line) {
                        Ok(object @ Value::Object(_)) => Ok(object),
                        Ok(_) => Err("it is no JSON object".into()),
                        Err(_) if std::str::from_utf8(line).is_err() => {
                            Err("it is not text in UTF-8".into())
                        }
                        Err(error) => Err(format!("it is no JSON: {error}")),
                    };
                    if !take(number, row) {
                        return;
                    }
                }
            }
            Form::Csv {
                text,
                delimiter,
                header,
            } => {
                for record in reader(text, *delimiter).into_records() {
                    let (line, row) = match record {
                        Ok(record) => (
                            record.position().map_or(0, csv::Position::line),
                            Ok(Value::Object(
                                header
                                    .iter()
                                    .zip(&record)
                                    .filter(|(_, cell)| !cell.is_empty())
                                    .map(|(name, cell)| (name.clone(), Value::from(cell)))
                                    .collect(),
                            )),
                        ),
                        Err(error) => (
                            error.position().map_or(0, csv::Position::line),
                            Err(table_error(&error, None)),
                        ),
                    };
                    if !take(line, row) {
                        return;
                    }
                }
            }
        }
    }

    /// Where each field stands: as mapped, else under a usual name that most lines have.
    pub(super) fn columns(&self, mapping: &Mapping) -> Result<Columns, AccessLogError> {
        let mut sample = Vec::new();
        self.each(|_, row| {
            sample.extend(row);
            sample.len() < LOOKED_AT
        });
        let usable = |field: Field, path: &str| {
            sample
                .iter()
                .filter(|row| at(row, path).is_some_and(|value| is_usable(field, value)))
                .count()
        };
        let mut columns = Columns::new();
        for field in Field::ALL {
            if let Some(path) = mapping.column(field) {
                if !sample.is_empty() && usable(field, path) == 0 {
                    return Err(AccessLogError::Missing {
                        needed: needed(field),
                        field: field.name(),
                        there: paths(&sample),
                    });
                }
                columns.push((field, path.into()));
                continue;
            }
            let mut best: Option<(usize, &str)> = None;
            for path in field.usual() {
                let lines = usable(field, path);
                if lines > best.map_or(0, |(most, _)| most) {
                    best = Some((lines, path));
                }
            }
            match best {
                Some((_, path)) => columns.push((field, path.into())),
                // Without one readable line there is another error to give.
                None if matches!(field, Field::Input | Field::Output) && !sample.is_empty() => {
                    return Err(AccessLogError::Missing {
                        needed: needed(field),
                        field: field.name(),
                        there: paths(&sample),
                    });
                }
                None => {}
            }
        }
        Ok(columns)
    }

    pub(super) fn read(
        &self,
        columns: &Columns,
        model: Option<&str>,
    ) -> Result<AccessLog, AccessLogError> {
        let timed = columns.iter().any(|(field, _)| *field == Field::Arrival);
        let mut log = AccessLog {
            entries: Vec::new(),
            timed,
            lines: 0,
            bad: 0,
            first_bad: None,
            failed: 0,
            other_models: 0,
            models: Vec::new(),
            tenants: Vec::new(),
            sessions: 0,
            columns: columns.clone(),
        };
        let mut names = Names::default();
        let mut too_many = false;
        self.each(|line, row| {
            log.lines += 1;
            match row.and_then(|row| names.entry(&row, columns, model)) {
                Ok(Read::Entry(entry)) => {
                    too_many = log.entries.len() >= MOST_REQUESTS;
                    log.entries.push(entry);
                }
                Ok(Read::Failed) => log.failed += 1,
                Ok(Read::OtherModel) => log.other_models += 1,
                Err(problem) => {
                    log.bad += 1;
                    log.first_bad.get_or_insert((line, problem));
                }
            }
            !too_many
        });
        if too_many {
            return Err(AccessLogError::TooMany);
        }
        log.sessions = names.sessions.len() as u64;
        log.models = names.models.into_iter().collect();
        log.models.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        let mut tenants: Vec<(u16, String)> = names
            .tenants
            .into_iter()
            .map(|(name, number)| (number, name))
            .collect();
        tenants.sort_unstable();
        log.tenants = tenants.into_iter().map(|(_, name)| name).collect();
        Ok(log)
    }
}

fn reader(text: &str, delimiter: u8) -> csv::Reader<&[u8]> {
    csv::ReaderBuilder::new()
        .flexible(true)
        .delimiter(delimiter)
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes())
}

const fn needed(field: Field) -> &'static str {
    match field {
        Field::Arrival => "when a request came",
        Field::Input => "the tokens of a prompt",
        Field::Output => "the tokens generated",
        Field::Cached => "the prompt tokens found in the cache",
        Field::Session => "the session",
        Field::Tenant => "the tenant",
        Field::Model => "the model",
        Field::Status => "the status",
    }
}

/// The value at a path: its literal name first, for names with dots in them; upper and lower case
/// count the same.
fn at<'a>(row: &'a Value, path: &str) -> Option<&'a Value> {
    let object = row.as_object()?;
    let get = |name: &str| {
        object.get(name).or_else(|| {
            object
                .iter()
                .find(|(key, _)| key.eq_ignore_ascii_case(name))
                .map(|(_, value)| value)
        })
    };
    if let Some(value) = get(path) {
        return Some(value);
    }
    // `attributes.gen_ai.usage.x` may be one object with a dotted name in it.
    path.match_indices('.')
        .find_map(|(dot, _)| at(get(&path[..dot])?, &path[dot + 1..]))
}

fn is_usable(field: Field, value: &Value) -> bool {
    match field {
        Field::Arrival => arrival(value).is_some(),
        Field::Input | Field::Output | Field::Cached => tokens(value).is_some(),
        Field::Session | Field::Tenant | Field::Model => name(value).is_some(),
        Field::Status => !value.is_null(),
    }
}

fn arrival(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => match number.as_u64() {
            Some(whole) if whole >= 100_000_000_000_000_000 => i64::try_from(whole).ok(),
            _ => time::of_number(number.as_f64()?),
        },
        Value::String(text) => time::nanoseconds_of(text),
        _ => None,
    }
}

fn tokens(value: &Value) -> Option<u32> {
    let number = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    (number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number))
        .then_some(number as u32)
}

fn name(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.trim().is_empty() => Some(text.trim().into()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Whether a status says that the request failed; words count as they are used.
fn is_failure(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_f64().is_some_and(|code| code >= 400.0),
        Value::String(text) => match text.trim().parse::<f64>() {
            Ok(code) => code >= 400.0,
            Err(_) => [
                "error",
                "fail",
                "failed",
                "failure",
                "timeout",
                "aborted",
                "cancelled",
            ]
            .iter()
            .any(|word| text.trim().eq_ignore_ascii_case(word)),
        },
        _ => false,
    }
}

/// Paths of a few lines, for people to map.
fn paths(sample: &[Value]) -> Vec<String> {
    fn walk(value: &Value, path: &str, out: &mut BTreeSet<String>, depth: u8) {
        let Some(object) = value.as_object() else {
            out.insert(path.into());
            return;
        };
        for (key, inner) in object {
            let path = if path.is_empty() {
                key.clone()
            } else {
                format!("{path}.{key}")
            };
            if depth < 6 && out.len() <= PATHS_NAMED {
                walk(inner, &path, out, depth + 1);
            }
        }
    }
    let mut out = BTreeSet::new();
    for row in sample.iter().take(20) {
        walk(row, "", &mut out, 0);
    }
    let more = out.len() > PATHS_NAMED;
    let mut paths: Vec<String> = out.into_iter().take(PATHS_NAMED).collect();
    if more {
        paths.push("…".into());
    }
    paths
}

/// What a line is.
enum Read {
    Entry(Entry),
    Failed,
    OtherModel,
}

/// Names seen so far, numbered.
#[derive(Default)]
struct Names {
    sessions: BTreeMap<String, u32>,
    tenants: BTreeMap<String, u16>,
    models: BTreeMap<String, u64>,
}

impl Names {
    fn entry(
        &mut self,
        row: &Value,
        columns: &Columns,
        wanted: Option<&str>,
    ) -> Result<Read, String> {
        let column = |field: Field| {
            let (_, path) = columns.iter().find(|(known, _)| *known == field)?;
            Some((path, at(row, path)))
        };
        let value = |field: Field| column(field).and_then(|(_, value)| value);
        let model = value(Field::Model).and_then(name);
        if let (Some(wanted), Some(model)) = (wanted, &model)
            && wanted != model
        {
            self.count(model);
            return Ok(Read::OtherModel);
        }
        if value(Field::Status).is_some_and(is_failure) {
            return Ok(Read::Failed);
        }
        let arrival = match column(Field::Arrival) {
            None => 0,
            Some((path, found)) => found.and_then(arrival).ok_or_else(|| {
                format!(
                    "`{path}` is {}; expected a time (seconds, milliseconds or nanoseconds since 1970, or ISO 8601)",
                    shown(found)
                )
            })?,
        };
        let (input, output) = (value(Field::Input), value(Field::Output));
        // What was never answered has no usage.
        if input.is_none_or(Value::is_null) && output.is_none_or(Value::is_null) {
            return Ok(Read::Failed);
        }
        let need = |field: Field, found: Option<&Value>| {
            found.and_then(tokens).ok_or_else(|| {
                let path = column(field).map_or("", |(path, _)| path.as_str());
                format!(
                    "`{path}` is {}; expected a whole number of tokens",
                    shown(found)
                )
            })
        };
        let entry = Entry {
            arrival,
            input: need(Field::Input, input)?,
            output: need(Field::Output, output)?,
            cached: value(Field::Cached).and_then(tokens),
            session: value(Field::Session).and_then(name).map(|session| {
                let next = self.sessions.len() as u32;
                *self.sessions.entry(session).or_insert(next)
            }),
            tenant: value(Field::Tenant).and_then(name).and_then(|tenant| {
                let next = self.tenants.len() as u16;
                match self.tenants.get(&tenant) {
                    Some(known) => Some(*known),
                    None if self.tenants.len() >= MOST_NAMES => None,
                    None => {
                        self.tenants.insert(tenant, next);
                        Some(next)
                    }
                }
            }),
        };
        if entry.output == 0 {
            return Ok(Read::Failed);
        }
        if let Some(model) = model {
            self.count(&model);
        }
        Ok(Read::Entry(entry))
    }

    fn count(&mut self, model: &str) {
        if let Some(count) = self.models.get_mut(model) {
            *count += 1;
        } else if self.models.len() < MOST_NAMES {
            self.models.insert(model.into(), 1);
        }
    }
}

fn shown(found: Option<&Value>) -> String {
    match found {
        None => "missing".into(),
        Some(value) => value.to_string().chars().take(40).collect(),
    }
}
