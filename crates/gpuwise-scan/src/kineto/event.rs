//! One event: its fields as they are written.

use super::lex::{Cursor, Stop, Text};

/// The fields of an event that say something here; the last of equal keys counts.
#[derive(Clone, Copy, Default)]
pub(super) struct Event<'a> {
    /// `X`, `i`, `M`, `C`, …; 0 where there is none.
    pub(super) phase: u8,
    pub(super) category: Text<'a>,
    pub(super) name: Text<'a>,
    /// As written: a number, or a text with its quotes.
    pub(super) process: &'a [u8],
    pub(super) thread: &'a [u8],
    pub(super) start: Option<&'a [u8]>,
    pub(super) duration: Option<&'a [u8]>,
    /// The object under `args`, braces included.
    pub(super) args: &'a [u8],
    /// Its kind is not looked at here: only phase and category are set.
    pub(super) skipped: bool,
}

/// Beginning of the names of Python calls that are those of a module.
/// Source: output_json.cpp of pytorch/kineto; torch/profiler's `with_modules` and `with_stack`.
pub(super) const MODULE: &[u8] = b"nn.Module: ";

/// What the allocator did, the only instants that say something here.
pub(super) const MEMORY: &[u8] = b"[memory]";

/// Spans of Python functions: most of a trace `with_stack`, and in no figure but those of modules.
pub(super) const PYTHON_FUNCTION: &[u8] = b"python_function";

/// Passes one event; the cursor stands at its brace.
pub(super) fn event<'a>(cursor: &mut Cursor<'a>) -> Result<Event<'a>, Stop> {
    let mut event = Event::default();
    cursor.expect(b'{')?;
    if cursor.peek()? == b'}' {
        cursor.at += 1;
        return Ok(event);
    }
    loop {
        let key = cursor.key()?;
        let is_text = cursor.peek()? == b'"';
        match key {
            b"ph" if is_text => {
                event.phase = cursor.text()?.raw.first().copied().unwrap_or(0);
                if matches!(event.phase, b's' | b'f' | b't') {
                    return skip(cursor, event);
                }
            }
            b"cat" if is_text => {
                event.category = cursor.text()?;
                let is_python = event.phase == b'X' && event.category.raw == PYTHON_FUNCTION;
                if is_python && !names_module(cursor) {
                    return skip(cursor, event);
                }
            }
            b"name" if is_text => {
                event.name = cursor.text()?;
                let is_instant = matches!(event.phase, b'i' | b'I' | b'R');
                if is_instant && event.name.raw != MEMORY {
                    return skip(cursor, event);
                }
            }
            b"pid" => event.process = cursor.value()?,
            b"tid" => event.thread = cursor.value()?,
            b"ts" => event.start = Some(cursor.value()?),
            b"dur" => event.duration = Some(cursor.value()?),
            b"args" => event.args = cursor.value()?,
            _ => {
                cursor.value()?;
            }
        }
        match cursor.peek()? {
            b',' => cursor.at += 1,
            b'}' => {
                cursor.at += 1;
                return Ok(event);
            }
            _ => return Err(Stop::Bad),
        }
    }
}

/// Whether what follows the category is the name of a module, as every writer orders them.
fn names_module(cursor: &Cursor<'_>) -> bool {
    let beginning: [&[u8]; 4] = [b",", b"\"name\"", b":", b"\"nn.Module: "];
    let mut rest = cursor.bytes.get(cursor.at..).unwrap_or_default();
    beginning.iter().all(|wanted| {
        let left = rest.trim_ascii_start().strip_prefix(*wanted);
        rest = left.unwrap_or_default();
        left.is_some()
    })
}

fn skip<'a>(cursor: &mut Cursor<'a>, mut event: Event<'a>) -> Result<Event<'a>, Stop> {
    cursor.leave(1)?;
    event.skipped = true;
    Ok(event)
}
