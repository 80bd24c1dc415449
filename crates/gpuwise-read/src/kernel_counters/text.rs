//! The text of an export: its encoding, and where its table begins.

use std::borrow::Cow;

/// How far into a file its header is looked for when its kind is to be told.
const LOOKED_AT: usize = 1 << 20;

/// Whether bytes look like an export of Nsight Compute: there is a header among them.
pub fn is_kernel_counters(bytes: &[u8]) -> bool {
    let beginning = bytes.get(..LOOKED_AT).unwrap_or(bytes);
    let text = decode(beginning);
    header(&text).is_some()
}

/// Text of UTF-8, or of UTF-16 as Windows shells redirect it, without its byte-order mark.
pub(super) fn decode(bytes: &[u8]) -> Cow<'_, str> {
    let wide = |rest: &[u8], number: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = rest
            .as_chunks::<2>()
            .0
            .iter()
            .map(|pair| number(*pair))
            .collect();
        Cow::Owned(String::from_utf16_lossy(&units))
    };
    match bytes {
        [0xff, 0xfe, rest @ ..] => wide(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => wide(rest, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest),
        _ => String::from_utf8_lossy(bytes),
    }
}

/// Where the header begins: at the cell `ID` of the first line that also has `Kernel Name`. What a
/// program printed without ending its line may stand before it.
pub(super) fn header(text: &str) -> Option<usize> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.contains("Kernel Name") {
            let found = line
                .find("\"ID\",")
                .or_else(|| line.starts_with("ID,").then_some(0));
            if let Some(place) = found {
                return Some(at + place);
            }
        }
        at += line.len();
    }
    None
}
