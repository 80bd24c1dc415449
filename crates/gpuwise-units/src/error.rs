use alloc::string::String;

/// Why a text is not a quantity: what was read, what was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct ParseQuantityError {
    /// The text as it was given.
    pub text: String,
    /// What would have been right, for example ``a size such as `80GiB` or `80GB` ``.
    pub expected: String,
}

impl ParseQuantityError {
    pub(crate) fn new(text: &str, expected: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            expected: expected.into(),
        }
    }
}
