//! The file from its first byte to its last: what stands beside the events, and the events.

use super::{
    KinetoError, Limits,
    build::Builder,
    event::event,
    head,
    lex::{Cursor, Stop},
    link,
    losses::Place,
    source::Source,
    vocabulary::Vocabulary,
};
use gpuwise_domain::profile::timeline::Timeline;
use memchr::memmem;
use std::io::Read;

/// The byte-order mark that some editors put before UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What ended a piece of the file.
enum End {
    Whole,
    /// The file ends within it.
    Cut,
    /// What follows is no JSON.
    Broken,
}

struct Reading<'v, R> {
    source: Source<R>,
    builder: Builder<'v>,
    limits: &'v Limits,
    has_events: bool,
}

pub(super) fn read<R: Read>(
    reader: R,
    vocabulary: &Vocabulary,
    limits: &Limits,
) -> Result<Timeline, KinetoError> {
    let mut reading = Reading {
        source: Source::new(reader),
        builder: Builder::new(vocabulary, limits),
        limits,
        has_events: false,
    };
    reading.fill()?;
    if reading.source.window().starts_with(BYTE_ORDER_MARK) {
        reading.source.take(BYTE_ORDER_MARK.len());
    }
    let end = match reading.peek()? {
        Some(b'{') => {
            reading.source.take(1);
            reading.object()?
        }
        Some(b'[') => {
            reading.source.take(1);
            reading.has_events = true;
            reading.events()?
        }
        Some(_) => return Err(reading.not("neither `{` nor `[`")),
        None if reading.source.cut.is_some() => return Err(reading.cut_early()),
        None => return Err(KinetoError::Empty),
    };
    if !reading.has_events {
        return Err(match end {
            End::Whole => reading.not("no `traceEvents` before the end"),
            End::Broken => reading.not("no JSON"),
            End::Cut => reading.cut_early(),
        });
    }
    if matches!(end, End::Cut) && reading.builder.timeline.event_count == 0 {
        return Err(KinetoError::CutInFirstEvent {
            read: reading.source.place() + reading.source.window().len() as u64,
            why: reading.source.cut.clone(),
        });
    }
    reading.close(&end)?;
    let kinds: Vec<String> = vocabulary
        .other_devices
        .iter()
        .map(|device| device.kind.clone())
        .collect();
    Ok(link::finish(reading.builder, &kinds))
}

impl<R: Read> Reading<'_, R> {
    fn fill(&mut self) -> Result<(), KinetoError> {
        let read = self.source.place();
        self.source
            .fill()
            .map_err(|error| KinetoError::Io { read, error })
    }

    fn not(&self, what: &'static str) -> KinetoError {
        KinetoError::NotATrace {
            what,
            place: self.source.place(),
        }
    }

    fn cut_early(&self) -> KinetoError {
        KinetoError::CutBeforeEvents {
            read: self.source.place() + self.source.window().len() as u64,
            why: self.source.cut.clone(),
        }
    }

    /// The next byte that is no white space, where there is one; it stays.
    fn peek(&mut self) -> Result<Option<u8>, KinetoError> {
        loop {
            let mut cursor = Cursor::new(self.source.window());
            let found = cursor.peek().ok();
            let passed = cursor.at;
            self.source.take(passed);
            if found.is_some() || self.source.ended {
                return Ok(found);
            }
            self.fill()?;
        }
    }

    /// Passes a `,`, if there is one. Says whether another piece follows, or how it ended.
    fn next(&mut self, closing: u8) -> Result<Option<End>, KinetoError> {
        let mut byte = self.peek()?;
        if byte == Some(b',') {
            self.source.take(1);
            byte = self.peek()?;
        }
        Ok(match byte {
            None => Some(End::Cut),
            Some(byte) if byte == closing => {
                self.source.take(1);
                Some(End::Whole)
            }
            Some(_) => None,
        })
    }

    /// Reads one piece that must stand in the window whole: more is read until it does.
    fn piece<T>(
        &mut self,
        mut parse: impl FnMut(&mut Cursor<'_>) -> Result<T, Stop>,
    ) -> Result<Result<(T, usize), Stop>, KinetoError> {
        loop {
            let mut cursor = Cursor::new(self.source.window());
            match parse(&mut cursor) {
                Ok(value) => return Ok(Ok((value, cursor.at))),
                Err(Stop::Bad) => return Ok(Err(Stop::Bad)),
                Err(Stop::More) if self.source.ended => return Ok(Err(Stop::More)),
                Err(Stop::More) if self.source.window().len() > self.limits.largest_piece => {
                    return Ok(Err(Stop::Bad));
                }
                Err(Stop::More) => self.fill()?,
            }
        }
    }

    /// The fields of the outermost object.
    fn object(&mut self) -> Result<End, KinetoError> {
        loop {
            if let Some(end) = self.next(b'}')? {
                return Ok(end);
            }
            let key = self.piece(|cursor| {
                let key = cursor.text()?.raw.to_vec();
                cursor.expect(b':')?;
                cursor.peek()?;
                Ok(key)
            })?;
            let key = match key {
                Ok((key, passed)) => {
                    self.source.take(passed);
                    key
                }
                Err(Stop::More) => return Ok(End::Cut),
                Err(Stop::Bad) => return Ok(End::Broken),
            };
            if key == b"traceEvents" {
                if self.peek()? != Some(b'[') {
                    return Err(self.not("`traceEvents` that is no array"));
                }
                self.source.take(1);
                if self.has_events {
                    self.builder.losses.of_file(
                        "`traceEvents` stands more than once; all were read".into(),
                        1,
                    );
                }
                self.has_events = true;
                match self.events()? {
                    End::Whole => {}
                    other => return Ok(other),
                }
            } else if let Some(end) = self.beside(&key)? {
                return Ok(end);
            }
        }
    }

    /// A value beside the events.
    fn beside(&mut self, key: &[u8]) -> Result<Option<End>, KinetoError> {
        let is_wanted = head::is_wanted(key);
        let value = self.piece(|cursor| {
            let raw = cursor.value()?;
            Ok(is_wanted.then(|| serde_json::from_slice::<serde_json::Value>(raw)))
        })?;
        match value {
            Ok((value, passed)) => {
                self.source.take(passed);
                let is_right = match value {
                    None => true,
                    Some(Err(_)) => false,
                    Some(Ok(value)) => head::take(&mut self.builder.timeline, key, &value),
                };
                if !is_right {
                    let key = String::from_utf8_lossy(key);
                    self.builder
                        .losses
                        .of_file(format!("`{key}`, which is not what the profiler writes"), 1);
                }
                Ok(None)
            }
            Err(Stop::More) => Ok(Some(End::Cut)),
            Err(Stop::Bad) => Ok(Some(End::Broken)),
        }
    }

    /// The elements of the array of events, up to its end.
    fn events(&mut self) -> Result<End, KinetoError> {
        loop {
            // As many as stand in the window whole, without looking at it anew for each.
            let taken = self.events_of_window();
            self.source.take(taken);
            match self.next(b']')? {
                Some(End::Whole) if !self.ends_here()? => {
                    let place = self.place();
                    if !self.resume()? {
                        let what = "bytes after the end of the trace";
                        self.builder.losses.of_file(what.into(), 1);
                        return Ok(End::Whole);
                    }
                    self.builder
                        .losses
                        .at("brackets that close the events too early", place);
                }
                Some(end) => return Ok(end),
                None if self.peek()? != Some(b'{') => {
                    let place = self.place();
                    self.builder
                        .losses
                        .at("elements of `traceEvents` that are no objects", place);
                    self.builder.timeline.event_count += 1;
                    // What no comma follows is a piece of something damaged.
                    let value = self.piece(|cursor| {
                        cursor.value()?;
                        match cursor.peek()? {
                            b',' | b']' => Ok(()),
                            _ => Err(Stop::Bad),
                        }
                    })?;
                    match value {
                        Ok(((), passed)) => self.source.take(passed),
                        Err(Stop::More) => return Ok(End::Cut),
                        Err(Stop::Bad) => {
                            if !self.resume()? {
                                return Ok(End::Broken);
                            }
                        }
                    }
                }
                None => match self.piece(|cursor| event(cursor).map(|_| ()))? {
                    // It stands there whole now: the next turn takes it.
                    Ok(_) => {}
                    Err(Stop::More) => return Ok(End::Cut),
                    Err(Stop::Bad) => {
                        if !self.damaged_event()? {
                            return Ok(End::Broken);
                        }
                    }
                },
            }
        }
    }

    /// Takes an event that is no JSON, as far as it can be understood, and passes to the next one.
    /// Says whether there may be one.
    fn damaged_event(&mut self) -> Result<bool, KinetoError> {
        let place = self.place();
        self.builder.timeline.event_count += 1;
        let understood = self.piece(|cursor| {
            cursor.lenient = true;
            event(cursor).map(|_| ())
        })?;
        if let Ok(((), length)) = understood {
            let mut cursor = Cursor::new(self.source.window());
            cursor.lenient = true;
            if let Ok(event) = event(&mut cursor) {
                self.builder.event(&event, place);
            }
            self.source.take(length);
            return Ok(true);
        }
        self.builder.losses.at("events that are no JSON", place);
        self.resume()
    }

    /// Whether what follows the closing bracket of the events may follow it.
    fn ends_here(&mut self) -> Result<bool, KinetoError> {
        let follows = self.piece(|cursor| {
            let first = cursor.peek()?;
            if first != b',' {
                return Ok(first == b'}');
            }
            cursor.at += 1;
            Ok(matches!(cursor.peek()?, b'"' | b'}'))
        })?;
        // Nothing follows at the end of a file.
        Ok(follows.map_or_else(|stop| stop == Stop::More, |(may, _)| may))
    }

    fn place(&self) -> Place {
        Place {
            event: self.builder.timeline.event_count + 1,
            byte: self.source.place(),
        }
    }

    /// Takes the events at the front of the window; says how many bytes they have.
    fn events_of_window(&mut self) -> usize {
        let mut cursor = Cursor::new(self.source.window());
        let before = self.source.place();
        let mut taken = 0;
        loop {
            match cursor.peek() {
                Ok(b'{') => {}
                Ok(b',') => {
                    cursor.at += 1;
                    continue;
                }
                _ => return taken,
            }
            let place = Place {
                event: self.builder.timeline.event_count + 1,
                byte: before + cursor.at as u64,
            };
            let Ok(event) = event(&mut cursor) else {
                return taken;
            };
            self.builder.timeline.event_count += 1;
            self.builder.event(&event, place);
            taken = cursor.at;
        }
    }

    /// Passes to the next beginning of an event, as writers begin one: `{`, white space, `"ph"`.
    fn resume(&mut self) -> Result<bool, KinetoError> {
        self.source.take(1);
        loop {
            let window = self.source.window();
            let found = memmem::find_iter(window, b"\"ph\"").find_map(|at| {
                let before = window.get(..at)?;
                let brace = before
                    .iter()
                    .rposition(|byte| !byte.is_ascii_whitespace())?;
                (before.get(brace) == Some(&b'{')).then_some(brace)
            });
            if let Some(brace) = found {
                self.source.take(brace);
                return Ok(true);
            }
            if self.source.ended {
                let rest = window.len();
                self.source.take(rest);
                return Ok(false);
            }
            // A beginning may stand across the end of the window.
            let rest = window.len().saturating_sub(256);
            self.source.take(rest);
            self.fill()?;
        }
    }

    /// Says how the file ended.
    fn close(&mut self, end: &End) -> Result<(), KinetoError> {
        if matches!(end, End::Whole) && self.peek()?.is_some() {
            self.builder
                .losses
                .of_file("bytes after the end of the trace".into(), 1);
        }
        let read = self.source.place() + self.source.window().len() as u64;
        if let Some(why) = &self.source.cut {
            self.builder.losses.of_file(
                format!("the end of the file: its compressed data stops after {read} bytes of text ({why})"),
                1,
            );
        } else if !matches!(end, End::Whole) {
            let what = if matches!(end, End::Cut) {
                "the end of the file: it is cut off"
            } else {
                "the rest of the file: it is no JSON"
            };
            self.builder
                .losses
                .of_file(format!("{what} after {} bytes", self.source.place()), 1);
        }
        self.builder.timeline.bytes = read;
        if self.builder.timeline.event_count == 0 {
            self.builder
                .losses
                .of_file("events: there are none".into(), 0);
        }
        Ok(())
    }
}
