//! A header, its length field, an index, and what is made of the tensors.

use gpuwise_read::{
    safetensors::{header_span, read_header, read_index},
    stored::architecture_from_tensors,
};

/// Hands bytes over and holds what is true of every answer.
pub(crate) fn check(data: &[u8]) {
    let Some((first, json)) = data.split_first_chunk::<8>() else {
        return;
    };
    let length = u64::from_le_bytes(*first);
    let _ = header_span(*first, data.len() as u64);
    if let Ok(text) = std::str::from_utf8(json) {
        let _ = read_index(text);
    }
    if let Ok(header) = read_header(json, length) {
        let sum: u64 = header.tensors.iter().map(|tensor| tensor.bytes).sum();
        assert_eq!(sum, length, "tensors fill the data");
        let _ = architecture_from_tensors(&header.tensors);
    }
}
