//! Writes a block of Prometheus's database as its documents describe it, so that two hundred million
//! samples are there in a minute: `tsdb/docs/format/chunks.md` and `index.md` of prometheus/prometheus,
//! and for the bits of a chunk the Gorilla paper (Pelkonen et al., VLDB 2015), which its encoding
//! follows.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, BufWriter, Seek as _, Write},
    path::{Path, PathBuf},
};

/// Samples of one chunk, as Prometheus cuts them.
const SAMPLES: usize = 120;
/// Bytes of one file of chunks before the next is begun.
const SEGMENT: u64 = 400 << 20;

/// Labels of one series, sorted by name, as numbers of symbols.
pub(crate) type Labels = Vec<(u32, u32)>;

/// All strings of a block, each once.
#[derive(Default)]
pub(crate) struct Symbols {
    numbers: BTreeMap<String, u32>,
}

impl Symbols {
    pub(crate) fn add(&mut self, text: &str) {
        if !self.numbers.contains_key(text) {
            self.numbers.insert(text.to_owned(), 0);
        }
    }

    /// Numbers them in their order, which is that of the file.
    pub(crate) fn seal(&mut self) {
        for (number, value) in (0..).zip(self.numbers.values_mut()) {
            *value = number;
        }
    }

    pub(crate) fn number(&self, text: &str) -> u32 {
        self.numbers.get(text).copied().unwrap_or(0)
    }
}

/// One chunk as the index knows it.
struct ChunkMeta {
    first: i64,
    last: i64,
    reference: u64,
}

/// A block that is being written: series must come in the order of their labels.
pub(crate) struct Block {
    folder: PathBuf,
    chunks: BufWriter<File>,
    segment: u64,
    written: u64,
    index: BufWriter<File>,
    index_at: u64,
    series_start: u64,
    postings: BTreeMap<(u32, u32), Vec<u32>>,
    all: Vec<u32>,
    symbols: Symbols,
    samples: u64,
    chunk_count: u64,
    first: i64,
    last: i64,
}

impl Block {
    /// A block in a folder of this name (a ULID) below `data`.
    pub(crate) fn new(data: &Path, ulid: &str, symbols: Symbols) -> io::Result<Self> {
        let folder = data.join(ulid);
        fs::create_dir_all(folder.join("chunks"))?;
        let mut index = BufWriter::new(File::create(folder.join("index"))?);
        index.write_all(&[0xBA, 0xAA, 0xD7, 0x00, 2])?;
        let mut body = Vec::new();
        body.extend_from_slice(&(symbols.numbers.len() as u32).to_be_bytes());
        for text in symbols.numbers.keys() {
            uvarint(&mut body, text.len() as u64);
            body.extend_from_slice(text.as_bytes());
        }
        let index_at = 5 + section(&mut index, &body)?;
        let chunks = segment(&folder, 1)?;
        Ok(Self {
            folder,
            chunks,
            segment: 1,
            written: 8,
            index,
            index_at,
            series_start: index_at,
            postings: BTreeMap::new(),
            all: Vec::new(),
            symbols,
            samples: 0,
            chunk_count: 0,
            first: i64::MAX,
            last: i64::MIN,
        })
    }

    /// Adds a series with its samples (milliseconds, value) in their order.
    pub(crate) fn series(&mut self, labels: &Labels, samples: &[(i64, f64)]) -> io::Result<()> {
        if samples.is_empty() {
            return Ok(());
        }
        let mut metas = Vec::with_capacity(samples.len() / SAMPLES + 1);
        for part in samples.chunks(SAMPLES) {
            metas.push(self.chunk(part)?);
        }
        let padding = (16 - self.index_at % 16) % 16;
        self.index.write_all(&[0; 16][..padding as usize])?;
        self.index_at += padding;
        let id = u32::try_from(self.index_at / 16).map_err(io::Error::other)?;
        let mut body = Vec::with_capacity(256);
        uvarint(&mut body, labels.len() as u64);
        for (name, value) in labels {
            uvarint(&mut body, u64::from(*name));
            uvarint(&mut body, u64::from(*value));
            self.postings.entry((*name, *value)).or_default().push(id);
        }
        self.all.push(id);
        uvarint(&mut body, metas.len() as u64);
        let mut before: Option<&ChunkMeta> = None;
        for meta in &metas {
            match before {
                None => {
                    varint(&mut body, meta.first);
                    uvarint(&mut body, (meta.last - meta.first) as u64);
                    uvarint(&mut body, meta.reference);
                }
                Some(before) => {
                    uvarint(&mut body, (meta.first - before.last) as u64);
                    uvarint(&mut body, (meta.last - meta.first) as u64);
                    varint(
                        &mut body,
                        meta.reference.cast_signed() - before.reference.cast_signed(),
                    );
                }
            }
            before = Some(meta);
        }
        let mut length = Vec::new();
        uvarint(&mut length, body.len() as u64);
        self.index.write_all(&length)?;
        self.index.write_all(&body)?;
        self.index.write_all(&checksum(&body).to_be_bytes())?;
        self.index_at += (length.len() + body.len() + 4) as u64;
        Ok(())
    }

    fn chunk(&mut self, samples: &[(i64, f64)]) -> io::Result<ChunkMeta> {
        if self.written > SEGMENT {
            self.segment += 1;
            self.chunks.flush()?;
            self.chunks = segment(&self.folder, self.segment)?;
            self.written = 8;
        }
        let reference = (self.segment - 1) << 32 | self.written;
        let data = encoded(samples);
        let mut length = Vec::new();
        uvarint(&mut length, data.len() as u64);
        let mut body = Vec::with_capacity(data.len() + 1);
        body.push(1);
        body.extend_from_slice(&data);
        self.chunks.write_all(&length)?;
        self.chunks.write_all(&body)?;
        self.chunks.write_all(&checksum(&body).to_be_bytes())?;
        self.written += (length.len() + body.len() + 4) as u64;
        self.samples += samples.len() as u64;
        self.chunk_count += 1;
        let first = samples.first().map_or(0, |sample| sample.0);
        let last = samples.last().map_or(0, |sample| sample.0);
        self.first = self.first.min(first);
        self.last = self.last.max(last);
        Ok(ChunkMeta {
            first,
            last,
            reference,
        })
    }

    /// Writes postings, tables and what is known of the block; returns how many samples it holds.
    pub(crate) fn finish(mut self, ulid: &str) -> io::Result<u64> {
        let mut table: Vec<(String, String, u64)> = Vec::new();
        let postings_start = self.index_at;
        let names: Vec<&String> = self.symbols.numbers.keys().collect();
        let everything = std::mem::take(&mut self.all);
        let lists = std::mem::take(&mut self.postings);
        table.push((String::new(), String::new(), self.index_at));
        self.index_at += posting(&mut self.index, &everything, self.index_at)?;
        for ((name, value), ids) in &lists {
            let padding = (4 - self.index_at % 4) % 4;
            let text = |number: &u32| {
                names
                    .get(*number as usize)
                    .map_or(String::new(), |t| (*t).clone())
            };
            table.push((text(name), text(value), self.index_at + padding));
            self.index_at += posting(&mut self.index, ids, self.index_at)?;
        }
        if let Some(first) = table.first_mut() {
            first.2 = postings_start + (4 - postings_start % 4) % 4;
        }
        let table_start = self.index_at;
        let mut body = (table.len() as u32).to_be_bytes().to_vec();
        for (name, value, offset) in &table {
            uvarint(&mut body, 2);
            for text in [name, value] {
                uvarint(&mut body, text.len() as u64);
                body.extend_from_slice(text.as_bytes());
            }
            uvarint(&mut body, *offset);
        }
        section(&mut self.index, &body)?;
        // Tables of label values are not read by version 2 of the format: postings tell them.
        let mut contents = Vec::new();
        for offset in [5, self.series_start, 0, 0, postings_start, table_start] {
            contents.extend_from_slice(&u64::to_be_bytes(offset));
        }
        self.index.write_all(&contents)?;
        self.index.write_all(&checksum(&contents).to_be_bytes())?;
        self.index.flush()?;
        self.chunks.flush()?;
        let meta = format!(
            r#"{{"ulid":"{ulid}","minTime":{},"maxTime":{},"stats":{{"numSamples":{},"numSeries":{},"numChunks":{}}},"compaction":{{"level":1,"sources":["{ulid}"]}},"version":1}}"#,
            self.first,
            self.last + 1,
            self.samples,
            everything.len(),
            self.chunk_count
        );
        fs::write(self.folder.join("meta.json"), meta)?;
        Ok(self.samples)
    }
}

fn segment(folder: &Path, number: u64) -> io::Result<BufWriter<File>> {
    let mut file = File::create(folder.join(format!("chunks/{number:06}")))?;
    file.write_all(&[0x85, 0xBD, 0x40, 0xDD, 1, 0, 0, 0])?;
    file.flush()?;
    debug_assert_eq!(file.stream_position()?, 8);
    Ok(BufWriter::with_capacity(1 << 20, file))
}

fn section(out: &mut impl Write, body: &[u8]) -> io::Result<u64> {
    out.write_all(&(body.len() as u32).to_be_bytes())?;
    out.write_all(body)?;
    out.write_all(&checksum(body).to_be_bytes())?;
    Ok(body.len() as u64 + 8)
}

/// A list of series, aligned to four bytes.
fn posting(out: &mut impl Write, ids: &[u32], at: u64) -> io::Result<u64> {
    let padding = (4 - at % 4) % 4;
    out.write_all(&[0; 4][..padding as usize])?;
    let mut body = (ids.len() as u32).to_be_bytes().to_vec();
    for id in ids {
        body.extend_from_slice(&id.to_be_bytes());
    }
    Ok(padding + section(out, &body)?)
}

/// Samples as an XOR chunk.
fn encoded(samples: &[(i64, f64)]) -> Vec<u8> {
    let mut bits = Bits::default();
    bits.bytes
        .extend_from_slice(&(samples.len() as u16).to_be_bytes());
    let (mut at, mut delta, mut value) = (0_i64, 0_i64, 0_u64);
    let (mut leading, mut trailing) = (u32::MAX, 0_u32);
    for (position, (time, sample)) in samples.iter().enumerate() {
        let new = sample.to_bits();
        if position == 0 {
            varint(&mut bits.bytes, *time);
            bits.bytes.extend_from_slice(&new.to_be_bytes());
        } else {
            let step = time - at;
            if position == 1 {
                let mut bytes = Vec::new();
                uvarint(&mut bytes, step as u64);
                for byte in bytes {
                    bits.push(u64::from(byte), 8);
                }
            } else {
                bits.change_of_step(step - delta);
            }
            delta = step;
            bits.value(new ^ value, &mut leading, &mut trailing);
        }
        at = *time;
        value = new;
    }
    bits.bytes
}

/// Bits appended to bytes, the highest first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    /// Bits still free in the last byte.
    free: u32,
}

impl Bits {
    fn push(&mut self, value: u64, count: u32) {
        let mut left = count;
        while left > 0 {
            if self.free == 0 {
                self.bytes.push(0);
                self.free = 8;
            }
            let take = left.min(self.free);
            let part = (value >> (left - take)) & ((1 << take) - 1);
            self.free -= take;
            if let Some(last) = self.bytes.last_mut() {
                *last |= (part << self.free) as u8;
            }
            left -= take;
        }
    }

    fn change_of_step(&mut self, change: i64) {
        let fits = |bits: u32| -((1_i64 << (bits - 1)) - 1) <= change && change <= 1 << (bits - 1);
        let raw = change as u64;
        match () {
            () if change == 0 => self.push(0, 1),
            () if fits(14) => {
                self.push(0b10, 2);
                self.push(raw & ((1 << 14) - 1), 14);
            }
            () if fits(17) => {
                self.push(0b110, 3);
                self.push(raw & ((1 << 17) - 1), 17);
            }
            () if fits(20) => {
                self.push(0b1110, 4);
                self.push(raw & ((1 << 20) - 1), 20);
            }
            () => {
                self.push(0b1111, 4);
                self.push(raw, 64);
            }
        }
    }

    fn value(&mut self, xor: u64, leading: &mut u32, trailing: &mut u32) {
        if xor == 0 {
            self.push(0, 1);
            return;
        }
        self.push(1, 1);
        let (new_leading, new_trailing) = (xor.leading_zeros().min(31), xor.trailing_zeros());
        if *leading != u32::MAX && new_leading >= *leading && new_trailing >= *trailing {
            self.push(0, 1);
            self.push(xor >> *trailing, 64 - *leading - *trailing);
            return;
        }
        (*leading, *trailing) = (new_leading, new_trailing);
        let width = 64 - new_leading - new_trailing;
        self.push(1, 1);
        self.push(u64::from(new_leading), 5);
        // 64 does not fit six bits and is written as 0.
        self.push(u64::from(width & 63), 6);
        self.push(xor >> new_trailing, width);
    }
}

fn uvarint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn varint(out: &mut Vec<u8>, value: i64) {
    uvarint(out, (value << 1 ^ value >> 63) as u64);
}

/// CRC-32C (Castagnoli), reflected polynomial 0x82F63B78: RFC 3720, appendix B.4.
fn checksum(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = table();
    let sum = bytes.iter().fold(u32::MAX, |sum, byte| {
        sum >> 8 ^ TABLE[((sum ^ u32::from(*byte)) & 0xFF) as usize]
    });
    !sum
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut value = index as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 {
                value >> 1 ^ 0x82F6_3B78
            } else {
                value >> 1
            };
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
}
