//! Model types that generate no text, so that a mistake is named as one instead of a missing field.

/// Classifiers and backbones of images, detectors, segmenters, encoders of text and sound, as
/// transformers 5.23 names them.
const OTHER_KINDS: &str = include_str!("other_kinds.txt");

/// Whether this type is known to be something else than a decoder or an encoder-decoder of text.
pub(super) fn is_no_language_model(model_type: &str) -> bool {
    OTHER_KINDS.lines().any(|known| known == model_type)
}
