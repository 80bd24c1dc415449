use crate::Silicon;
use alloc::{
    string::{String, ToString as _},
    vec::Vec,
};

/// Levels of a lane, from what all share to what one GPU under one version does.
pub const LEVELS: [&str; 8] = [
    "format", "engine", "kernel", "class", "major", "minor", "GPU", "version",
];

/// Whose times these are: one way down the levels.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lane {
    parts: [String; 8],
}

/// Index of a level.
pub(crate) const ENGINE: usize = 1;
pub(crate) const KERNEL: usize = 2;
pub(crate) const CLASS: usize = 3;
pub(crate) const MAJOR: usize = 4;
pub(crate) const MINOR: usize = 5;
pub(crate) const GPU: usize = 6;
pub(crate) const VERSION: usize = 7;

impl Lane {
    /// The lane of a format (with what else sets kernels apart), an engine, its kernel and version on
    /// this GPU. An empty kernel or version is unknown.
    pub fn new(format: &str, engine: &str, kernel: &str, version: &str, silicon: &Silicon) -> Self {
        let (major, minor) = &silicon.architecture;
        let parts = [
            format,
            engine,
            kernel,
            silicon.class.name(),
            major,
            minor,
            &silicon.name,
            version,
        ];
        // Separators of the text must not be in names.
        Self {
            parts: parts.map(|part| part.replace(['|', ','], "/")),
        }
    }

    pub fn part(&self, level: usize) -> &str {
        &self.parts[level]
    }

    /// The levels down to this one, as the text names them.
    pub fn path(&self, level: usize) -> String {
        self.parts[..=level].join("|")
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let parts: Vec<String> = text.split('|').map(str::to_string).collect();
        let parts = parts.try_into().ok()?;
        Some(Self { parts })
    }
}
