//! Protobuf's wire format: fields of a message, one by one, without a schema.

use thiserror::Error;

/// Why bytes are no message.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WireError {
    /// A field that is no protobuf.
    #[error("{what} at byte {offset}")]
    Damaged { what: &'static str, offset: usize },
    /// A message that goes beyond the bytes that are there.
    #[error("cut off within {what} at byte {offset}")]
    Truncated {
        /// What was being read.
        what: &'static str,
        offset: usize,
    },
}

/// A field of a message.
#[derive(Debug, Clone, Copy)]
pub struct Field<'a> {
    pub number: u64,
    pub value: Value<'a>,
    /// Where its value begins in the file.
    pub at: usize,
}

#[derive(Debug, Clone, Copy)]
pub enum Value<'a> {
    /// Variable length, or four fixed bytes.
    Number(u64),
    /// Eight fixed bytes.
    Fixed(u64),
    /// A text or a message.
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    /// A message within, with where it begins in the file.
    pub fn message(&self) -> Option<(&'a [u8], usize)> {
        match self.value {
            Value::Bytes(bytes) => Some((bytes, self.at)),
            Value::Number(_) | Value::Fixed(_) => None,
        }
    }

    pub fn integer(&self) -> Option<i64> {
        match self.value {
            Value::Number(number) => Some(number.cast_signed()),
            Value::Fixed(_) | Value::Bytes(_) => None,
        }
    }

    /// A number of eight bytes with a fraction.
    pub fn double(&self) -> Option<f64> {
        match self.value {
            Value::Fixed(bits) => Some(f64::from_bits(bits)),
            Value::Number(_) | Value::Bytes(_) => None,
        }
    }

    /// A whole number of eight fixed bytes.
    pub fn fixed(&self) -> Option<u64> {
        match self.value {
            Value::Fixed(bits) => Some(bits),
            Value::Number(_) | Value::Bytes(_) => None,
        }
    }

    /// A text; what is not UTF-8 in it is replaced.
    pub fn text(&self) -> Option<String> {
        match self.value {
            Value::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            Value::Number(_) | Value::Fixed(_) => None,
        }
    }
}

/// Fields of a message.
pub struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
    base: usize,
    failed: bool,
}

impl<'a> Fields<'a> {
    /// Fields of a message that begins at `base` in the file.
    pub fn new(bytes: &'a [u8], base: usize) -> Self {
        Self {
            bytes,
            at: 0,
            base,
            failed: false,
        }
    }

    fn truncated(&self, what: &'static str) -> WireError {
        WireError::Truncated {
            what,
            offset: self.base + self.at,
        }
    }

    fn damaged(&self, what: &'static str) -> WireError {
        WireError::Damaged {
            what,
            offset: self.base + self.at,
        }
    }

    fn number(&mut self) -> Result<u64, WireError> {
        let mut number = 0_u64;
        for shift in (0..70).step_by(7) {
            let byte = *self
                .bytes
                .get(self.at)
                .ok_or_else(|| self.truncated("a number"))?;
            self.at += 1;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(self.damaged("a number of more than 64 bits"))
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], WireError> {
        let taken = usize::try_from(length)
            .ok()
            .and_then(|length| self.at.checked_add(length))
            .and_then(|end| self.bytes.get(self.at..end))
            .ok_or_else(|| self.truncated("a field"))?;
        self.at += taken.len();
        Ok(taken)
    }

    fn field(&mut self) -> Result<Field<'a>, WireError> {
        let tag = self.number()?;
        let number = tag >> 3;
        if number == 0 {
            return Err(self.damaged("a field without a number"));
        }
        let mut at = self.base + self.at;
        let value = match tag & 7 {
            0 => Value::Number(self.number()?),
            1 => {
                let bytes = self.take(8)?;
                Value::Fixed(little_endian(bytes))
            }
            2 => {
                let length = self.number()?;
                at = self.base + self.at;
                Value::Bytes(self.take(length)?)
            }
            5 => {
                let bytes = self.take(4)?;
                Value::Number(little_endian(bytes))
            }
            _ => return Err(self.damaged("a field of an unknown kind")),
        };
        Ok(Field { number, value, at })
    }
}

fn little_endian(bytes: &[u8]) -> u64 {
    let bytes = bytes.iter().rev();
    bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.at >= self.bytes.len() {
            return None;
        }
        let field = self.field();
        self.failed = field.is_err();
        Some(field)
    }
}
