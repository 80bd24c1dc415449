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
    pub(super) escaped: bool,
    /// It has quotes that should have been escaped.
    pub(super) repaired: bool,
}

/// A place in a window.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
    /// Quotes within texts may stand anywhere, so that the end of a text is told from what comes
    /// after it: for a second try at an event that is no JSON.
    pub(super) lenient: bool,
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

const fn ends_scalar(byte: u8) -> bool {
    matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t')
}

/// Place of the first quote, backslash or line break. Most texts are shorter than a call of memchr is
/// worth: their first 32 bytes are looked at eight by eight.
#[inline]
fn text_mark(bytes: &[u8]) -> Option<usize> {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    // Has the high bit of the lowest byte that is zero, and perhaps of bytes above it.
    const fn zeros(word: u64) -> u64 {
        word.wrapping_sub(LOW) & !word & HIGH
    }
    const fn all(byte: u8) -> u64 {
        LOW * byte as u64
    }
    let mut at = 0;
    while at < 32
        && let Some(eight) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>())
    {
        let word = u64::from_le_bytes(*eight);
        let marks = zeros(word ^ all(b'"')) | zeros(word ^ all(b'\\')) | zeros(word ^ all(b'\n'));
        if marks != 0 {
            return Some(at + marks.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    memchr3(b'"', b'\\', b'\n', bytes.get(at..)?).map(|found| at + found)
}

/// Whether this is how an event begins after its brace: no object within one begins so.
fn begins_event(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().starts_with(b"\"ph\"")
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            lenient: false,
        }
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
            let found = text_mark(rest).ok_or(Stop::More)?;
            self.at += found;
            match rest.get(found) {
                Some(b'"') => {
                    let end = self.at;
                    self.at += 1;
                    let is_end = match self.peek()? {
                        b',' if self.lenient => self.key_follows()?,
                        b':' | b',' | b'}' | b']' => true,
                        _ => false,
                    };
                    if !is_end {
                        text.repaired = true;
                        self.at = end + 1;
                        continue;
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

    /// Passes a key and its colon. Where the colon follows at once, as in every file of the profiler, nothing
    /// else need be asked of the text.
    #[inline]
    pub(super) fn key(&mut self) -> Result<&'a [u8], Stop> {
        if self.peek()? == b'"'
            && let Some(rest) = self.bytes.get(self.at + 1..)
            && let Some(end) = text_mark(rest)
            && rest.get(end..end + 2) == Some(b"\":")
            && let Some(key) = rest.get(..end)
        {
            self.at += end + 3;
            return Ok(key);
        }
        let key = self.text()?;
        // No key has a bare quote: a colon is missing.
        if key.repaired {
            return Err(Stop::Bad);
        }
        self.expect(b':')?;
        Ok(key.raw)
    }

    /// Whether `, "key":` follows; nothing is passed.
    fn key_follows(&self) -> Result<bool, Stop> {
        let mut ahead = *self;
        ahead.at += 1;
        if ahead.peek()? != b'"' {
            return Ok(false);
        }
        let rest = ahead.bytes.get(ahead.at + 1..).ok_or(Stop::More)?;
        let found = text_mark(rest).ok_or(Stop::More)?;
        ahead.at += found + 2;
        Ok(rest.get(found) == Some(&b'"') && ahead.peek()? == b':')
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
                b'"' if self.lenient => {
                    self.at -= 1;
                    self.text()?;
                }
                b'"' => loop {
                    let rest = self.bytes.get(self.at..).ok_or(Stop::More)?;
                    let found = text_mark(rest).ok_or(Stop::More)?;
                    self.at += found + 1;
                    match rest.get(found) {
                        Some(b'"') => break,
                        Some(b'\\') => self.at += 1,
                        _ => return Err(Stop::Bad),
                    }
                },
                b'{' | b'[' => {
                    depth += 1;
                    // A brace or a quote was lost: the next event is not part of this one.
                    if byte == b'{' && begins_event(self.bytes.get(self.at..).unwrap_or_default()) {
                        return Err(Stop::Bad);
                    }
                }
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
        let Ok(key) = cursor.key() else { return };
        let Ok(value) = cursor.value() else { return };
        if !each(key, value) || cursor.expect(b',').is_err() {
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
