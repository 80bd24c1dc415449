use alloc::string::String;

/// Why a network cannot be walked through at these sizes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WalkError {
    /// An image that the network cannot take.
    #[error(
        "{part} takes images whose sides are multiples of {multiple}, because {because}; {width} × {height} is none, the nearest is {nearest_width} × {nearest_height}"
    )]
    Resolution {
        part: String,
        width: u64,
        height: u64,
        /// What sides must be multiples of.
        multiple: u64,
        because: String,
        nearest_width: u64,
        nearest_height: u64,
    },
    /// An image with sides longer than positions are stored for.
    #[error("{part} has positions for sides of up to {most} pixels; {width} × {height} is larger")]
    ImageTooLarge {
        part: String,
        width: u64,
        height: u64,
        most: u64,
    },
    /// A number of frames that the network cannot take.
    #[error(
        "{part} takes 1 frame and any multiple of {multiple} more; {frames} is none of these, the nearest is {nearest}"
    )]
    Frames {
        part: String,
        frames: u64,
        /// Frames of one latent.
        multiple: u64,
        nearest: u64,
    },
    /// More text than the network has positions for.
    #[error("{part} takes at most {most} tokens; {tokens} were asked for")]
    TextTooLong {
        part: String,
        tokens: u64,
        /// The most.
        most: u64,
    },
    /// Something that must be said and is not.
    #[error("{part} needs {what}, which is neither given nor usual for it")]
    Missing { part: String, what: &'static str },
    /// A size that cannot be.
    #[error("{what} is {found}; expected {expected}")]
    Wrong {
        what: &'static str,
        found: String,
        expected: &'static str,
    },
    /// Parts that do not fit together, or dimensions that contradict each other.
    #[error("{part}: {problem}")]
    Contradiction { part: String, problem: String },
    /// Work beyond all counting.
    #[error(
        "{part} at this size makes more than 2^60 operations or elements; make the input smaller"
    )]
    TooMuch { part: String },
}
