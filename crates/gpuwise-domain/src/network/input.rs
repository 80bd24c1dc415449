/// The size of one input, and what is asked of the network with it.
///
/// What is `None` is taken from what is usual for the network, else from its configuration.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct InputSize {
    pub width: Option<u64>,
    /// Pixels; voxels of a volume.
    pub height: Option<u64>,
    /// Frames of a video, slices of a volume.
    pub frames: Option<u64>,
    pub steps: Option<u64>,
    /// Whether each step is run twice, with and without the prompt (classifier-free guidance).
    pub guided: Option<bool>,
    /// Tokens of text; those to which prompts are padded.
    pub text_tokens: Option<u64>,
    pub seconds: Option<f64>,
    /// Tokens that a decoder writes for one input, or for one window of audio.
    pub written_tokens: Option<u64>,
    /// Windows that slide over one volume.
    pub windows: Option<f64>,
}

impl InputSize {
    /// This, and what it leaves open from another.
    #[must_use]
    pub fn or(self, usual: Self) -> Self {
        Self {
            width: self.width.or(usual.width),
            height: self.height.or(usual.height),
            frames: self.frames.or(usual.frames),
            steps: self.steps.or(usual.steps),
            guided: self.guided.or(usual.guided),
            text_tokens: self.text_tokens.or(usual.text_tokens),
            seconds: self.seconds.or(usual.seconds),
            written_tokens: self.written_tokens.or(usual.written_tokens),
            windows: self.windows.or(usual.windows),
        }
    }

    /// An image of this many pixels.
    pub fn image(width: u64, height: u64) -> Self {
        Self {
            width: Some(width),
            height: Some(height),
            ..Self::default()
        }
    }

    pub fn text(tokens: u64) -> Self {
        Self {
            text_tokens: Some(tokens),
            ..Self::default()
        }
    }

    pub fn audio(seconds: f64) -> Self {
        Self {
            seconds: Some(seconds),
            ..Self::default()
        }
    }
}
