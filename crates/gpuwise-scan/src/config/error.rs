/// What is wrong with a model configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("not a JSON document: {0}")]
    Syntax(String),
    /// It is JSON, but not an object.
    #[error("a model configuration is a JSON object, this is {0}")]
    NotAnObject(&'static str),
    /// A field that is needed is absent.
    #[error("`{field}` is missing; without it the {purpose} is unknown")]
    Missing {
        field: &'static str,
        /// What it is needed for.
        purpose: &'static str,
    },
    /// A type that is not known, whose fields are not those of a usual decoder either.
    #[error(
        "`model_type` {model_type:?} is not known, and it cannot be read as a usual decoder: {reason}"
    )]
    UnknownType {
        /// As stated, or empty.
        model_type: String,
        /// What a usual decoder would have.
        reason: Box<ConfigError>,
    },
    /// A field holds something that cannot be.
    #[error("`{field}` is {found}; expected {expected}")]
    Wrong {
        field: String,
        found: String,
        /// What would be right.
        expected: &'static str,
    },
    /// Two fields contradict each other.
    #[error("{0}")]
    Contradiction(String),
    /// A kind of model that this release does not size.
    #[error(
        "`model_type` {0:?} is not a language model: it generates no text; expected a decoder or encoder-decoder"
    )]
    NotALanguageModel(String),
}
