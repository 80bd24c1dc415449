//! Pieces of JSON in a window of bytes that may end anywhere.

use memchr::memchr3;

/// Why a piece could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The window ends within it.
    More,
    /// It is no JSON.
    Bad,
}

/// A text as it stands between its quotes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Text<'a> {
    pub(super) raw: &'a [u8],
    /// It has escapes.
    pub(super) escaped: bool,
    /// It has quotes that should have been escaped.
    pub(super) repaired: bool,
}

/// A place in a window.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

const fn ends_scalar(byte: u8) -> bool {
    matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t')
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The next byte that is no white space; it stays.
    pub(super) fn peek(&mut self) -> Result<u8, Stop> {
        while let Some(&byte) = self.bytes.get(self.at) {
            if !is_space(byte) {
                return Ok(byte);
            }
            self.at += 1;
        }
        Err(Stop::More)
    }

    /// Passes this byte, which must be the next one that is no white space.
    pub(super) fn expect(&mut self, wanted: u8) -> Result<(), Stop> {
        if self.peek()? != wanted {
            return Err(Stop::Bad);
        }
        self.at += 1;
        Ok(())
    }

    /// Passes a text. Quotes within it that were written without a backslash, as old writers did,
    /// are told by what follows: a text ends before `:`, `,`, `}` or `]`.
    pub(super) fn text(&mut self) -> Result<Text<'a>, Stop> {
        self.expect(b'"')?;
        let begin = self.at;
        let mut text = Text::default();
        loop {
            let rest = self.bytes.get(self.at..).ok_or(Stop::More)?;
            let found = memchr3(b'"', b'\\', b'\n', rest).ok_or(Stop::More)?;
            self.at += found;
            match rest.get(found) {
                Some(b'"') => {
                    let end = self.at;
                    self.at += 1;
                    match self.peek() {
                        Ok(b':' | b',' | b'}' | b']') => {}
                        // At the very end of the input there may be nothing more.
                        Err(stop) => return Err(stop),
                        Ok(_) => {
                            text.repaired = true;
                            self.at = end + 1;
                            continue;
                        }
                    }
                    text.raw = self.bytes.get(begin..end).ok_or(Stop::Bad)?;
                    return Ok(text);
                }
                Some(b'\\') => {
                    text.escaped = true;
                    self.at += 2;
                }
                // JSON has no line breaks within a text: a quote was lost.
                _ => return Err(Stop::Bad),
            }
        }
    }

    /// Passes a number or a word, and gives it back.
    pub(super) fn scalar(&mut self) -> Result<&'a [u8], Stop> {
        let begin = self.at;
        let rest = self.bytes.get(begin..).ok_or(Stop::More)?;
        let length = rest
            .iter()
            .position(|byte| ends_scalar(*byte))
            .ok_or(Stop::More)?;
        if length == 0 {
            return Err(Stop::Bad);
        }
        self.at += length;
        rest.get(..length).ok_or(Stop::Bad)
    }

    /// Passes a value of any kind and gives it back as it is written.
    pub(super) fn value(&mut self) -> Result<&'a [u8], Stop> {
        let first = self.peek()?;
        let begin = self.at;
        match first {
            b'"' => {
                let text = self.text()?;
                // With its quotes, so that a text is told from a number.
                self.bytes
                    .get(begin..begin + text.raw.len() + 2)
                    .ok_or(Stop::Bad)
            }
            b'{' | b'[' => {
                self.at += 1;
                self.leave(1)?;
                self.bytes.get(begin..self.at).ok_or(Stop::Bad)
            }
            _ => self.scalar(),
        }
    }

    /// Passes everything up to the end of the object or array that is `depth` levels up.
    pub(super) fn leave(&mut self, depth: usize) -> Result<(), Stop> {
        let mut depth = depth;
        while let Some(&byte) = self.bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'"' => loop {
                    let rest = self.bytes.get(self.at..).ok_or(Stop::More)?;
                    let found = memchr3(b'"', b'\\', b'\n', rest).ok_or(Stop::More)?;
                    self.at += found + 1;
                    match rest.get(found) {
                        Some(b'"') => break,
                        Some(b'\\') => self.at += 1,
                        _ => return Err(Stop::Bad),
                    }
                },
                b'{' | b'[' => depth += 1,
                b'}' | b']' => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                _ => {}
            }
        }
        Err(Stop::More)
    }
}

/// Calls `each` for every field of an object that stands there whole; stops where it is no JSON.
pub(super) fn fields<'a>(object: &'a [u8], mut each: impl FnMut(&'a [u8], &'a [u8])) {
    fields_while(object, |key, value| {
        each(key, value);
        true
    });
}

/// [`fields`], until `each` says that it has seen enough.
pub(super) fn fields_while<'a>(object: &'a [u8], mut each: impl FnMut(&'a [u8], &'a [u8]) -> bool) {
    let mut cursor = Cursor::new(object);
    if cursor.expect(b'{').is_err() {
        return;
    }
    while let Ok(b'"') = cursor.peek() {
        let Ok(key) = cursor.text() else { return };
        if cursor.expect(b':').is_err() {
            return;
        }
        let Ok(value) = cursor.value() else { return };
        if !each(key.raw, value) || cursor.expect(b',').is_err() {
            return;
        }
    }
}

/// Calls `each` for every element of an array that stands there whole; stops where it is no JSON.
pub(super) fn elements<'a>(array: &'a [u8], mut each: impl FnMut(&'a [u8])) {
    let mut cursor = Cursor::new(array);
    if cursor.expect(b'[').is_err() {
        return;
    }
    while let Ok(byte) = cursor.peek() {
        if byte == b']' {
            return;
        }
        let Ok(value) = cursor.value() else { return };
        each(value);
        if cursor.expect(b',').is_err() {
            return;
        }
    }
}
