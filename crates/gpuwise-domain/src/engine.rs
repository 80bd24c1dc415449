//! Inference engines and their versions.

use alloc::string::String;
use core::{cmp::Ordering, fmt, str::FromStr};

/// An inference engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EngineKind {
    /// vLLM.
    Vllm,
    /// SGLang.
    Sglang,
    /// TensorRT-LLM.
    TensorRtLlm,
    /// llama.cpp.
    LlamaCpp,
    /// Hugging Face Transformers.
    Transformers,
    /// DeepSpeed-MII.
    DeepSpeedMii,
}

impl EngineKind {
    /// Every engine.
    pub const ALL: [Self; 6] = [
        Self::Vllm,
        Self::Sglang,
        Self::TensorRtLlm,
        Self::LlamaCpp,
        Self::Transformers,
        Self::DeepSpeedMii,
    ];

    /// The name in commands and documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::TensorRtLlm => "trtllm",
            Self::LlamaCpp => "llamacpp",
            Self::Transformers => "transformers",
            Self::DeepSpeedMii => "deepspeed-mii",
        }
    }

    /// The name for people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Vllm => "vLLM",
            Self::Sglang => "SGLang",
            Self::TensorRtLlm => "TensorRT-LLM",
            Self::LlamaCpp => "llama.cpp",
            Self::Transformers => "Transformers",
            Self::DeepSpeedMii => "DeepSpeed-MII",
        }
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}

/// A release by its numbers; what follows them (`rc6.post2`) makes it no later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release {
    /// Major, minor, patch.
    pub numbers: [u32; 3],
}

impl FromStr for Release {
    type Err = ();

    /// Reads `0.15.1`, `1.2.0rc6.post2`, `v0.9.2`.
    fn from_str(text: &str) -> Result<Self, ()> {
        let text = text.strip_prefix('v').unwrap_or(text);
        if !text.starts_with(|c: char| c.is_ascii_digit()) || !text.contains('.') {
            return Err(());
        }
        let mut numbers = [0; 3];
        for (slot, part) in numbers.iter_mut().zip(text.split('.')) {
            let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            if digits == 0 {
                break;
            }
            *slot = part[..digits].parse().map_err(|_| ())?;
            if digits < part.len() {
                break;
            }
        }
        Ok(Self { numbers })
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")
    }
}

/// A month in which software was current.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Month {
    /// Year.
    pub year: u16,
    /// 1 to 12.
    pub month: u8,
}

impl Month {
    /// Months since year 0, for differences.
    pub fn index(self) -> i32 {
        i32::from(self.year) * 12 + i32::from(self.month) - 1
    }
}

/// An engine at a version, as far as it is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Engine {
    /// Which.
    pub kind: EngineKind,
    /// Its release, if stated.
    pub release: Option<Release>,
    /// When it was current, if stated or known from its release.
    pub month: Option<Month>,
    /// As it was written.
    pub written: String,
}

impl Engine {
    /// An engine at its newest version.
    pub fn newest(kind: EngineKind) -> Self {
        Self {
            kind,
            release: None,
            month: None,
            written: kind.title().into(),
        }
    }

    /// Whether its release is at least this; an unstated release counts as the newest.
    pub fn at_least(&self, numbers: [u32; 3]) -> bool {
        match self.release {
            Some(release) => release.numbers.cmp(&numbers) != Ordering::Less,
            None => true,
        }
    }
}
