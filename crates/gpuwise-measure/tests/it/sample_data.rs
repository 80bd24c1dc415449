//! Profiles of the sample data; a test says so and passes where they are not there.

use std::io::Read as _;

/// The bytes of a file, without their gzip.
pub(crate) fn unzipped(path: &std::path::Path) -> Vec<u8> {
    let bytes = std::fs::read(path).expect("a file of the sample data");
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return bytes;
    }
    let mut plain = Vec::new();
    flate2::read::MultiGzDecoder::new(&bytes[..])
        .read_to_end(&mut plain)
        .expect("gzip");
    plain
}

/// Expected figures of a JSON file of the sample data.
pub(crate) fn expected(path: &std::path::Path) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(path).expect("expected figures")).expect("JSON")
}
