//! A header, whole and in part, and the model that it describes.

use gpuwise_read::{
    gguf::{GgufError, architecture, read_header},
    stored::with_gguf,
};

/// Hands bytes over and holds what is true of every answer.
pub(crate) fn check(data: &[u8]) {
    // Files are longer than their headers: tensors may lie in what follows.
    let length = data.len() as u64 + (1 << 20);
    if let Ok(header) = read_header(data, length) {
        assert!(header.tensor_bytes() <= length, "tensors lie in the file");
        if let Ok(shape) = architecture(&header) {
            let stored = with_gguf(shape, &header).stored;
            assert!(
                stored.is_some_and(|stored| stored.total() <= length),
                "no byte counts twice"
            );
        }
    }
    let half = &data[..data.len() / 2];
    if let Err(GgufError::NeedMore(needed)) = read_header(half, length) {
        assert!(
            needed > half.len() as u64 && needed <= length,
            "it asks for more than it has"
        );
    }
}
