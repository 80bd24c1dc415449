//! Columns of integers in few bytes, and bytes as text of a page.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::{Compression, write::DeflateEncoder};
use std::io::Write as _;

/// Bytes of columns, one after the other.
#[derive(Debug, Default)]
pub(super) struct Columns {
    bytes: Vec<u8>,
}

impl Columns {
    /// Integers from 0 up, seven bits a byte, low ones first.
    pub(super) fn plain(&mut self, values: impl Iterator<Item = u64>) {
        for mut value in values {
            while value > 127 {
                self.bytes.push((value & 127) as u8 | 128);
                value >>= 7;
            }
            self.bytes.push(value as u8);
        }
    }

    /// Integers that rise, each as what it is above the one before.
    pub(super) fn rising(&mut self, values: impl Iterator<Item = i64>) {
        let mut last = 0;
        self.plain(values.map(|value| {
            let step = value.saturating_sub(last).max(0);
            last = last.max(value);
            step as u64
        }));
    }

    /// Integers of either sign, each as its difference to the one before.
    pub(super) fn moving(&mut self, values: impl Iterator<Item = i64>) {
        let mut last = 0_i64;
        self.plain(values.map(|value| {
            let step = value.wrapping_sub(last);
            last = value;
            if step < 0 {
                step.unsigned_abs().saturating_mul(2).saturating_sub(1)
            } else {
                (step as u64).saturating_mul(2)
            }
        }));
    }

    /// The length of the header, the header, the columns: deflated, as base64.
    pub(super) fn finish(self, header: &str) -> String {
        // Beyond some megabytes the last percent costs more than it is worth.
        let level = if self.bytes.len() > 2_000_000 { 6 } else { 9 };
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(level));
        let length = u32::try_from(header.len()).unwrap_or(u32::MAX);
        // Writing to memory does not fail.
        let _ = encoder.write_all(&length.to_le_bytes());
        let _ = encoder.write_all(header.as_bytes());
        let _ = encoder.write_all(&self.bytes);
        STANDARD.encode(encoder.finish().unwrap_or_default())
    }
}
