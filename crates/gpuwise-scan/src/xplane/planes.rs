//! Planes, lines and events of a file.

use super::XPlaneError;
use crate::protobuf::{Field, Fields, Value, WireError};
use gpuwise_domain::profile::planes::{Fact, Line, Plane, PlaneEvent, Planes};
use gpuwise_domain::profile::timeline::{Index, Loss, NameId, Names, Origin};
use std::collections::BTreeMap;

pub(super) const SPACE_PLANES: u64 = 1;
pub(super) const PLANE_ID: u64 = 1;
pub(super) const PLANE_NAME: u64 = 2;
const PLANE_LINES: u64 = 3;
const PLANE_EVENT_NAMES: u64 = 4;
const PLANE_STAT_NAMES: u64 = 5;
const PLANE_STATS: u64 = 6;
const MAP_KEY: u64 = 1;
const MAP_VALUE: u64 = 2;
const METADATA_NAME: u64 = 2;
const LINE_ID: u64 = 1;
const LINE_NAME: u64 = 2;
const LINE_TIMESTAMP_NS: u64 = 3;
const LINE_EVENTS: u64 = 4;
const LINE_DISPLAY_NAME: u64 = 11;
const EVENT_NAME: u64 = 1;
const EVENT_OFFSET_PS: u64 = 2;
const EVENT_DURATION_PS: u64 = 3;
const EVENT_STATS: u64 = 4;
const EVENT_OCCURRENCES: u64 = 5;
const STAT_NAME: u64 = 1;
const STAT_REAL: u64 = 2;
const STAT_UNSIGNED: u64 = 3;
const STAT_SIGNED: u64 = 4;
const STAT_TEXT: u64 = 5;
const STAT_REFERENCE: u64 = 7;

/// Reads a file of planes. A file that is cut off keeps the planes before the cut, and says so.
///
/// # Errors
///
/// Where the bytes are no protobuf, or hold no whole plane.
pub fn read_planes(bytes: &[u8]) -> Result<Planes, XPlaneError> {
    let mut planes = Planes {
        byte_count: bytes.len() as u64,
        ..Planes::default()
    };
    for field in Fields::new(bytes, 0) {
        let field = match field {
            Ok(field) => field,
            Err(WireError::Truncated { offset, .. }) if !planes.planes.is_empty() => {
                planes.losses.push(Loss {
                    what: "the file is cut off; planes from the cut on are missing".into(),
                    count: 1,
                    first: Some(format!("byte {offset}")),
                });
                break;
            }
            Err(error) => return Err(error.into()),
        };
        if let (SPACE_PLANES, Some((message, base))) = (field.number, field.message()) {
            planes.planes.push(plane(message, base)?);
        }
    }
    if planes.planes.is_empty() {
        return Err(XPlaneError::NoPlane { bytes: bytes.len() });
    }
    Ok(planes)
}

/// Tables that events of a plane refer to.
#[derive(Default)]
struct Tables {
    names: Names,
    known: BTreeMap<String, NameId>,
    event_names: BTreeMap<i64, NameId>,
    stat_names: BTreeMap<i64, String>,
}

impl Tables {
    fn name(&mut self, text: String) -> NameId {
        if let Some(id) = self.known.get(&text) {
            return *id;
        }
        let id = self.names.add(&text);
        self.known.insert(text, id);
        id
    }
}

/// Tables may stand behind the lines that need them, so lines are read at the end.
fn plane(bytes: &[u8], base: usize) -> Result<Plane, XPlaneError> {
    let mut plane = Plane::default();
    let mut tables = Tables::default();
    let mut lines = Vec::new();
    let mut stats = Vec::new();
    for field in Fields::new(bytes, base) {
        let field = field?;
        match field.number {
            PLANE_ID => plane.id = field.integer().unwrap_or(plane.id),
            PLANE_NAME => plane.name = field.text().unwrap_or_default(),
            PLANE_LINES => lines.extend(field.message()),
            PLANE_STATS => stats.extend(field.message()),
            PLANE_EVENT_NAMES => {
                if let Some((key, name)) = entry(&field)? {
                    let name = tables.name(name);
                    tables.event_names.insert(key, name);
                }
            }
            PLANE_STAT_NAMES => {
                if let Some((key, name)) = entry(&field)? {
                    tables.stat_names.insert(key, name);
                }
            }
            _ => {}
        }
    }
    plane.event_name_count = tables.event_names.len() as u64;
    for (message, base) in stats {
        if let Some((name, Some(fact))) = stat(message, base, &tables)? {
            plane.facts.push((name, fact));
        }
    }
    for (message, base) in lines {
        plane.lines.push(line(message, base, &mut tables)?);
    }
    plane.names = tables.names;
    Ok(plane)
}

/// An entry of a table: its key and the name in its value.
fn entry(field: &Field<'_>) -> Result<Option<(i64, String)>, XPlaneError> {
    let Some((message, base)) = field.message() else {
        return Ok(None);
    };
    let mut key = 0;
    let mut name = String::new();
    for field in Fields::new(message, base) {
        let field = field?;
        match (field.number, field.message()) {
            (MAP_KEY, None) => key = field.integer().unwrap_or(0),
            (MAP_VALUE, Some((value, base))) => {
                for field in Fields::new(value, base) {
                    let field = field?;
                    if field.number == METADATA_NAME {
                        name = field.text().unwrap_or_default();
                    }
                }
            }
            _ => {}
        }
    }
    Ok(Some((key, name)))
}

fn line(bytes: &[u8], base: usize, tables: &mut Tables) -> Result<Line, XPlaneError> {
    let mut line = Line::default();
    let mut display_name = String::new();
    for field in Fields::new(bytes, base) {
        let field = field?;
        match field.number {
            LINE_ID => line.id = field.integer().unwrap_or(line.id),
            LINE_NAME => line.name = field.text().unwrap_or_default(),
            LINE_DISPLAY_NAME => display_name = field.text().unwrap_or_default(),
            LINE_TIMESTAMP_NS => line.timestamp_ns = field.integer().unwrap_or(0),
            LINE_EVENTS => {
                if let Some((message, base)) = field.message() {
                    line.events.push(event(message, base, tables)?);
                }
            }
            _ => {}
        }
    }
    if line.name.is_empty() {
        line.name = display_name;
    }
    Ok(line)
}

fn event(bytes: &[u8], base: usize, tables: &mut Tables) -> Result<PlaneEvent, XPlaneError> {
    let mut name = 0;
    let mut offset_ps = 0;
    let mut aggregate = false;
    let mut event = PlaneEvent {
        name: NameId(u32::MAX),
        offset_ps: None,
        duration_ps: 0,
        correlation: None,
        detail: Index::NONE,
        origin: Origin::NONE,
    };
    for field in Fields::new(bytes, base) {
        let field = field?;
        match (field.number, field.value) {
            (EVENT_NAME, Value::Number(number)) => name = number.cast_signed(),
            (EVENT_OFFSET_PS, Value::Number(number)) => offset_ps = number.cast_signed(),
            (EVENT_DURATION_PS, Value::Number(number)) => event.duration_ps = number.cast_signed(),
            (EVENT_OCCURRENCES, Value::Number(_)) => aggregate = true,
            (EVENT_STATS, Value::Bytes(message)) => match stat(message, field.at, tables)? {
                Some((name, Some(Fact::Integer(number)))) if name == "correlation_id" => {
                    event.correlation = Some(number);
                }
                Some((name, Some(Fact::Text(text))))
                    if name == "kernel_details" || name == "memcpy_details" =>
                {
                    let id = tables.name(text);
                    event.detail = Index::of(id.0 as usize);
                }
                Some((name, Some(Fact::Text(text)))) => origin(&mut event, &name, &text, tables),
                _ => {}
            },
            _ => {}
        }
    }
    event.offset_ps = (!aggregate).then_some(offset_ps);
    if let Some(known) = tables.event_names.get(&name) {
        event.name = *known;
    }
    Ok(event)
}

/// What XLA says of a piece of work: the program's name of it, and that of the compiled operation.
fn origin(event: &mut PlaneEvent, name: &str, text: &str, tables: &mut Tables) {
    let origin = &mut event.origin;
    let (slot, text) = match name {
        "name" => (&mut origin.path, text),
        // `scope/operation:Type`; compiled programs have their module's kind there.
        "tf_op" if origin.path == Index::NONE => (&mut origin.path, operation(text)),
        "hlo_module" => (&mut origin.program, text),
        "hlo_op" => (&mut origin.operation, text),
        _ => return,
    };
    if !text.is_empty() {
        *slot = Index::of(tables.name(text.to_owned()).0 as usize);
    }
}

/// The name in `scope/operation:Type`; empty where it is that of a module as a whole.
pub(crate) fn operation(tf_op: &str) -> &str {
    let name = tf_op.rsplit_once(':').map_or(tf_op, |(name, _)| name);
    if name == "XlaModule" { "" } else { name }
}

/// A statement of a plane or an event: its name and, where it is of a kind that is kept, its value.
fn stat(
    bytes: &[u8],
    base: usize,
    tables: &Tables,
) -> Result<Option<(String, Option<Fact>)>, XPlaneError> {
    let mut name = None;
    let mut fact = None;
    for field in Fields::new(bytes, base) {
        let field = field?;
        match (field.number, field.value) {
            (STAT_NAME, Value::Number(id)) => name = tables.stat_names.get(&id.cast_signed()),
            (STAT_REAL, Value::Fixed(bits)) => fact = Some(Fact::Real(f64::from_bits(bits))),
            (STAT_UNSIGNED | STAT_SIGNED, Value::Number(number)) => {
                fact = Some(Fact::Integer(number.cast_signed()));
            }
            (STAT_TEXT, Value::Bytes(_)) => fact = field.text().map(Fact::Text),
            (STAT_REFERENCE, Value::Number(id)) => {
                let text = tables.stat_names.get(&id.cast_signed());
                fact = text.cloned().map(Fact::Text);
            }
            _ => {}
        }
    }
    Ok(name.map(|name| (name.clone(), fact)))
}
