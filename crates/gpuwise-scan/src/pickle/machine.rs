//! The machine that a pickle runs on, with a stack, marks and a memo.

use super::{HIGHEST_PROTOCOL, MAX_OPEN, Pickle, PickleError, Value, opcode as op};
use std::borrow::Cow;

/// Runs a pickle to its `STOP`.
pub(super) fn run(bytes: &[u8]) -> Result<Pickle<'_>, PickleError> {
    match bytes {
        [op::PROTO, protocol, ..] if *protocol > HIGHEST_PROTOCOL => {
            return Err(PickleError::Protocol {
                protocol: *protocol,
                highest: HIGHEST_PROTOCOL,
            });
        }
        [op::PROTO, _, ..] => {}
        _ => {
            return Err(PickleError::NotAPickle {
                first: bytes.first().copied().unwrap_or(0),
            });
        }
    }
    let mut machine = Machine {
        bytes,
        at: 2,
        start: 2,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: Vec::new(),
        texts: Vec::new(),
        sequences: Vec::new(),
        dicts: Vec::new(),
    };
    loop {
        machine.start = machine.at;
        let code = machine.byte("an instruction")?;
        if code == op::STOP {
            break;
        }
        if !machine.build(code)? && !machine.literal(code)? && !machine.remember(code)? {
            return Err(PickleError::Forbidden {
                name: op::name_of(code),
                code,
                offset: machine.start,
            });
        }
    }
    let root = machine.pop()?;
    Ok(Pickle {
        root,
        texts: machine.texts,
        sequences: machine.sequences,
        dicts: machine.dicts,
        end: machine.at,
    })
}

struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    start: usize,
    stack: Vec<Value>,
    marks: Vec<usize>,
    memo: Vec<Option<Value>>,
    texts: Vec<Cow<'a, str>>,
    sequences: Vec<Vec<Value>>,
    dicts: Vec<Vec<(Value, Value)>>,
}

impl<'a> Machine<'a> {
    /// Instructions that put a number or a text on the stack; whether it was one.
    fn literal(&mut self, code: u8) -> Result<bool, PickleError> {
        let value = match code {
            op::NONE => Value::None,
            op::NEWTRUE => Value::Bool(true),
            op::NEWFALSE => Value::Bool(false),
            op::BININT => Value::Integer(i64::from(i32::from_le_bytes(self.array("a number")?))),
            op::BININT1 => Value::Integer(i64::from(self.byte("a number")?)),
            op::BININT2 => Value::Integer(i64::from(u16::from_le_bytes(self.array("a number")?))),
            op::BINFLOAT => Value::Real(f64::from_be_bytes(self.array("a number")?)),
            op::LONG1 => {
                let length = usize::from(self.byte("a number")?);
                self.long(length)?
            }
            op::LONG4 => {
                let length = self.length4("a number")?;
                self.long(length)?
            }
            op::SHORT_BINUNICODE => {
                let length = usize::from(self.byte("a text")?);
                self.text(length)?
            }
            op::BINUNICODE => {
                let length = self.length4("a text")?;
                self.text(length)?
            }
            op::BINUNICODE8 => {
                let length = u64::from_le_bytes(self.array("a text")?);
                self.text(usize::try_from(length).unwrap_or(usize::MAX))?
            }
            _ => return Ok(false),
        };
        self.stack.push(value);
        Ok(true)
    }

    /// Instructions that make and fill lists, tuples and dictionaries; whether it was one.
    fn build(&mut self, code: u8) -> Result<bool, PickleError> {
        match code {
            op::MARK => {
                if self.marks.len() >= MAX_OPEN {
                    return Err(PickleError::TooDeep {
                        limit: MAX_OPEN,
                        offset: self.start,
                    });
                }
                self.marks.push(self.stack.len());
            }
            op::EMPTY_LIST => {
                let id = self.sequence(Vec::new());
                self.stack.push(Value::List(id));
            }
            op::EMPTY_DICT => {
                let id = u32::try_from(self.dicts.len()).unwrap_or(u32::MAX);
                self.dicts.push(Vec::new());
                self.stack.push(Value::Dict(id));
            }
            op::EMPTY_TUPLE => self.tuple(0)?,
            op::TUPLE1 => self.tuple(1)?,
            op::TUPLE2 => self.tuple(2)?,
            op::TUPLE3 => self.tuple(3)?,
            op::TUPLE => {
                let count = self.since_mark()?;
                self.tuple(count)?;
            }
            op::APPEND => self.append(1)?,
            op::APPENDS => {
                let count = self.since_mark()?;
                self.append(count)?;
            }
            op::SETITEM => self.set_items(2)?,
            op::SETITEMS => {
                let count = self.since_mark()?;
                self.set_items(count)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Instructions of the memo and of framing; whether it was one.
    fn remember(&mut self, code: u8) -> Result<bool, PickleError> {
        match code {
            op::MEMOIZE => {
                let value = self.top()?;
                self.memo.push(Some(value));
            }
            op::BINPUT => {
                let index = usize::from(self.byte("a place in the memo")?);
                self.put(index)?;
            }
            op::LONG_BINPUT => {
                let index = self.length4("a place in the memo")?;
                self.put(index)?;
            }
            op::BINGET => {
                let index = usize::from(self.byte("a place in the memo")?);
                self.recall(index)?;
            }
            op::LONG_BINGET => {
                let index = self.length4("a place in the memo")?;
                self.recall(index)?;
            }
            // Frames only tell readers of streams how much to fetch at once.
            op::FRAME => {
                self.array::<8>("a frame")?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn damaged(&self, what: &'static str) -> PickleError {
        PickleError::Damaged {
            what,
            offset: self.start,
        }
    }

    fn take(&mut self, length: usize, what: &'static str) -> Result<&'a [u8], PickleError> {
        let taken = self
            .at
            .checked_add(length)
            .and_then(|end| self.bytes.get(self.at..end))
            .ok_or(PickleError::Truncated {
                what,
                offset: self.start.min(self.bytes.len()),
                length: self.bytes.len(),
            })?;
        self.at += length;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], PickleError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N, what)?);
        Ok(array)
    }

    fn byte(&mut self, what: &'static str) -> Result<u8, PickleError> {
        Ok(u8::from_le_bytes(self.array(what)?))
    }

    fn length4(&mut self, what: &'static str) -> Result<usize, PickleError> {
        let length = u32::from_le_bytes(self.array(what)?);
        Ok(usize::try_from(length).unwrap_or(usize::MAX))
    }

    /// A whole number of any length, least byte first, the highest bit its sign.
    fn long(&mut self, length: usize) -> Result<Value, PickleError> {
        let offset = self.start;
        let bytes = self.take(length, "a number")?;
        let fill = if bytes.last().is_some_and(|last| last & 0x80 != 0) {
            0xff
        } else {
            0
        };
        let mut wide = [fill; 16];
        for (index, byte) in bytes.iter().enumerate() {
            match wide.get_mut(index) {
                Some(place) => *place = *byte,
                None if *byte == fill => {}
                None => return Err(PickleError::Number { offset }),
            }
        }
        let number = i128::from_le_bytes(wide);
        i64::try_from(number)
            .map(Value::Integer)
            .or_else(|_| u64::try_from(number).map(Value::Unsigned))
            .map_err(|_| PickleError::Number { offset })
    }

    fn text(&mut self, length: usize) -> Result<Value, PickleError> {
        let text = String::from_utf8_lossy(self.take(length, "a text")?);
        let id = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        self.texts.push(text);
        Ok(Value::Text(id))
    }

    fn sequence(&mut self, items: Vec<Value>) -> u32 {
        let id = u32::try_from(self.sequences.len()).unwrap_or(u32::MAX);
        self.sequences.push(items);
        id
    }

    fn top(&self) -> Result<Value, PickleError> {
        let floor = self.marks.last().copied().unwrap_or(0);
        match self.stack.last() {
            Some(value) if self.stack.len() > floor => Ok(*value),
            _ => Err(self.damaged("an instruction finds the stack empty")),
        }
    }

    fn pop(&mut self) -> Result<Value, PickleError> {
        let value = self.top()?;
        self.stack.pop();
        Ok(value)
    }

    /// Values above the last mark, which is taken away.
    fn since_mark(&mut self) -> Result<usize, PickleError> {
        let mark = self
            .marks
            .pop()
            .ok_or_else(|| self.damaged("an instruction without its MARK"))?;
        Ok(self.stack.len().saturating_sub(mark))
    }

    /// Where the last `count` values begin; they must lie above the last mark.
    fn last(&self, count: usize) -> Result<usize, PickleError> {
        let floor = self.marks.last().copied().unwrap_or(0);
        self.stack
            .len()
            .checked_sub(count)
            .filter(|from| *from >= floor)
            .ok_or_else(|| self.damaged("an instruction finds too few values"))
    }

    fn tuple(&mut self, count: usize) -> Result<(), PickleError> {
        let from = self.last(count)?;
        let items = self.stack.split_off(from);
        let id = self.sequence(items);
        self.stack.push(Value::Tuple(id));
        Ok(())
    }

    fn append(&mut self, count: usize) -> Result<(), PickleError> {
        let from = self.last(count)?;
        let floor = self.marks.last().copied().unwrap_or(0);
        let place = from.checked_sub(1).filter(|place| *place >= floor);
        let Some(Value::List(id)) = place.and_then(|place| self.stack.get(place)).copied() else {
            return Err(self.damaged("elements that no list waits for"));
        };
        let items = self.stack.drain(from..);
        if let Some(list) = self.sequences.get_mut(id as usize) {
            list.extend(items);
        }
        Ok(())
    }

    fn set_items(&mut self, count: usize) -> Result<(), PickleError> {
        let from = self.last(count)?;
        let floor = self.marks.last().copied().unwrap_or(0);
        let place = from.checked_sub(1).filter(|place| *place >= floor);
        let Some(Value::Dict(id)) = place.and_then(|place| self.stack.get(place)).copied() else {
            return Err(self.damaged("entries that no dictionary waits for"));
        };
        if !count.is_multiple_of(2) {
            return Err(self.damaged("a key without its value"));
        }
        if let Some(dict) = self.dicts.get_mut(id as usize) {
            let (pairs, _) = self.stack.get(from..).unwrap_or(&[]).as_chunks::<2>();
            dict.extend(pairs.iter().map(|[key, value]| (*key, *value)));
        }
        self.stack.truncate(from);
        Ok(())
    }

    /// Puts the top of the stack in the memo. Each instruction takes two bytes or more, so a place
    /// beyond the offset cannot come from a writer, and would only cost memory.
    fn put(&mut self, index: usize) -> Result<(), PickleError> {
        let value = self.top()?;
        if index > self.start {
            return Err(self.damaged("a place in the memo beyond all that was read"));
        }
        if index >= self.memo.len() {
            self.memo.resize(index + 1, None);
        }
        if let Some(place) = self.memo.get_mut(index) {
            *place = Some(value);
        }
        Ok(())
    }

    fn recall(&mut self, index: usize) -> Result<(), PickleError> {
        let value = self
            .memo
            .get(index)
            .copied()
            .flatten()
            .ok_or_else(|| self.damaged("an empty place in the memo"))?;
        self.stack.push(value);
        Ok(())
    }
}
