//! Server-sent events out of bytes that come in pieces of any size.

use std::mem;
use thiserror::Error;

/// A stream that sends more than this without ending an event sends no events.
const LONGEST_EVENT: usize = 16 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// Its data: the values of its `data` lines, joined by line feeds.
    pub data: &'a [u8],
    /// Whether the server marks it as an error by the name of the event or of the field.
    pub error: bool,
}

/// The stream holds an event that is longer than any server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("an event of more than {} MiB", LONGEST_EVENT >> 20)]
pub struct EventTooLong;

/// Splits bytes into events, incrementally: how the bytes are cut makes no difference.
///
/// Lines end with LF, CR or CRLF, events with a blank line; lines that begin with a colon are
/// comments, by which servers keep connections alive.
///
/// ```
/// use gpuwise_probe::bench::EventStream;
/// let mut stream = EventStream::default();
/// let mut seen = Vec::new();
/// stream.feed(b": ping\n\ndata: a\r\n\r", |event| seen.push(event.data.to_vec())).unwrap();
/// stream.feed(b"\ndata: b\n\n", |event| seen.push(event.data.to_vec())).unwrap();
/// assert_eq!(seen, [b"a".to_vec(), b"b".to_vec()]);
/// ```
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a state of its own")]
pub struct EventStream {
    /// The line that has not ended yet.
    line: Vec<u8>,
    /// The data of the event that has not ended yet.
    data: Vec<u8>,
    has_data: bool,
    error: bool,
    /// The last byte was a carriage return: a line feed that follows belongs to it.
    after_return: bool,
    /// A byte order mark can only stand before the first line.
    begun: bool,
}

impl EventStream {
    /// Takes the next bytes, and hands out each event that they end.
    ///
    /// # Errors
    /// When an event does not end.
    pub fn feed(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(Event<'_>),
    ) -> Result<(), EventTooLong> {
        if self.after_return && !bytes.is_empty() {
            self.after_return = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (line, rest) = bytes.split_at(end);
            bytes = match rest {
                [b'\r'] => {
                    self.after_return = true;
                    &[]
                }
                [b'\r', b'\n', rest @ ..] | [_, rest @ ..] => rest,
                [] => &[],
            };
            if self.line.is_empty() {
                self.line(line, &mut each);
            } else {
                let mut whole = mem::take(&mut self.line);
                whole.extend_from_slice(line);
                self.line(&whole, &mut each);
                whole.clear();
                self.line = whole;
            }
            self.bounded()?;
        }
        self.line.extend_from_slice(bytes);
        self.bounded()
    }

    /// The stream has ended: hands out an event whose blank line is missing.
    ///
    /// Returns whether anything had begun and not ended.
    pub fn finish(&mut self, mut each: impl FnMut(Event<'_>)) -> bool {
        let line = mem::take(&mut self.line);
        let open = !line.is_empty() || self.has_data;
        if !line.is_empty() {
            self.line(&line, &mut each);
        }
        self.line(b"", &mut each);
        open
    }

    fn bounded(&self) -> Result<(), EventTooLong> {
        if self.line.len().saturating_add(self.data.len()) > LONGEST_EVENT {
            Err(EventTooLong)
        } else {
            Ok(())
        }
    }

    fn line(&mut self, line: &[u8], each: &mut impl FnMut(Event<'_>)) {
        let line = if mem::replace(&mut self.begun, true) {
            line
        } else {
            line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
        };
        if line.is_empty() {
            if self.has_data {
                each(Event {
                    data: &self.data,
                    error: self.error,
                });
            }
            self.data.clear();
            self.has_data = false;
            self.error = false;
            return;
        }
        let (name, value) = match line.iter().position(|byte| *byte == b':') {
            Some(0) => return,
            Some(colon) => {
                let (name, value) = line.split_at(colon);
                let value = value.strip_prefix(b":").unwrap_or(value);
                (name, value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, &b""[..]),
        };
        match name {
            b"data" | b"error" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.error |= name == b"error";
                self.data.extend_from_slice(value);
            }
            b"event" => self.error |= value == b"error",
            _ => {}
        }
    }
}
