//! Inference engines and their versions.

use alloc::string::String;
use core::{cmp::Ordering, fmt, str::FromStr};

macro_rules! engines {
    ($($kind:ident {
        name: $name:literal,
        title: $title:literal,
        spellings: $spellings:expr,
        starts: $starts:expr
        $(, $flag:ident)*
    })*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum EngineKind {
            $($kind),*
        }

        impl EngineKind {
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$kind),*];

            const fn facts(self) -> &'static Facts {
                match self {
                    $(Self::$kind => &Facts {
                        name: $name,
                        title: $title,
                        spellings: $spellings,
                        starts: $starts,
                        $($flag: true,)*
                        ..Facts::PLAIN
                    }),*
                }
            }
        }
    };
}

engines! {
    Vllm {
        name: "vllm",
        title: "vLLM",
        spellings: &[],
        starts: &[
            &["vllm", "serve"],
            &["-m", "vllm.entrypoints.openai.api_server"],
            &["-m", "vllm.entrypoints.api_server"]
        ]
    }
    Sglang {
        name: "sglang",
        title: "SGLang",
        spellings: &[],
        starts: &[&["-m", "sglang.launch_server"], &["sglang", "serve"]],
        groups_within_tensor
    }
    TensorRtLlm {
        name: "trtllm",
        title: "TensorRT-LLM",
        spellings: &["tensorrt-llm", "tensorrt"],
        starts: &[&["trtllm-serve", "serve"], &["trtllm-serve"]],
        groups_within_tensor
    }
    LlamaCpp {
        name: "llamacpp",
        title: "llama.cpp",
        spellings: &["llama.cpp", "llama-server"],
        starts: &[&["llama-server"], &["llama-cli"]],
        numbered_builds
    }
    LmDeploy {
        name: "lmdeploy",
        title: "LMDeploy",
        spellings: &["turbomind"],
        starts: &[&["lmdeploy", "serve", "api_server"]]
    }
    Transformers {
        name: "transformers",
        title: "Transformers",
        spellings: &["hf"],
        starts: &[&["transformers", "serve"]]
    }
    DeepSpeedMii {
        name: "deepspeed-mii",
        title: "DeepSpeed-MII",
        spellings: &[],
        starts: &[]
    }
}

/// What is true of an engine in every release.
struct Facts {
    name: &'static str,
    title: &'static str,
    spellings: &'static [&'static str],
    starts: &'static [&'static [&'static str]],
    numbered_builds: bool,
    groups_within_tensor: bool,
}

impl Facts {
    const PLAIN: Self = Self {
        name: "",
        title: "",
        spellings: &[],
        starts: &[],
        numbered_builds: false,
        groups_within_tensor: false,
    };
}

impl EngineKind {
    /// The name in commands and documents.
    pub const fn name(self) -> &'static str {
        self.facts().name
    }

    pub const fn title(self) -> &'static str {
        self.facts().title
    }

    /// The engine that people mean by a name, in any case.
    pub fn by_name(name: &str) -> Option<Self> {
        let same = |other: &&str| other.eq_ignore_ascii_case(name);
        Self::ALL.into_iter().find(|kind| {
            let facts = kind.facts();
            same(&facts.name) || same(&facts.title) || facts.spellings.iter().any(same)
        })
    }

    /// Words that start a server of it, each way with its program first.
    pub const fn starts(self) -> &'static [&'static [&'static str]] {
        self.facts().starts
    }

    /// Whether its releases are build numbers (`b11434`).
    pub const fn has_numbered_builds(self) -> bool {
        self.facts().numbered_builds
    }

    /// Whether it counts attention groups within the tensor-parallel ranks.
    pub const fn counts_groups_within_tensor(self) -> bool {
        self.facts().groups_within_tensor
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Channel {
    #[default]
    Stable,
    /// A build of the day, between releases.
    Nightly,
    /// A pre-release of its maker's (`1.1.0-dev.2`).
    Development,
}

impl Channel {
    /// The channel that a version names.
    pub fn of(written: &str) -> Self {
        if written.contains("nightly") {
            Self::Nightly
        } else if written.contains("-dev") {
            Self::Development
        } else {
            Self::Stable
        }
    }
}

/// An engine version bucket: releases that behave alike, for which constants are kept together, with
/// what sets their runs apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionBucket {
    /// Its name in files of constants.
    pub key: &'static str,
    /// Whether its harness times batches that start and end together.
    pub static_batches: bool,
    /// Whether its recipe for FP8 and FP4 checkpoints quantizes the cache too.
    pub quantized_cache: bool,
    /// Whether its published sweeps draft with prediction layers wherever a model has them.
    pub drafting_sweeps: bool,
}

impl VersionBucket {
    pub const fn new(key: &'static str) -> Self {
        Self {
            key,
            static_batches: false,
            quantized_cache: false,
            drafting_sweeps: false,
        }
    }
}

/// An engine at a version, as far as it is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Engine {
    pub kind: EngineKind,
    /// Its release, if stated.
    pub release: Option<Release>,
    /// When it was current, if stated or known from its release.
    pub month: Option<Month>,
    pub channel: Channel,
    pub written: String,
}

impl Engine {
    pub fn newest(kind: EngineKind) -> Self {
        Self {
            kind,
            release: None,
            month: None,
            channel: Channel::Stable,
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
