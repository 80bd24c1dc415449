//! Launch commands of inference engines: what a running server was started with.
//!
//! Commands are read as they are pasted: over several lines, with quotes, `\` at line ends,
//! environment variables before them, inside `docker run`, or after a settings file that is written
//! by `cat > FILE <<'EOF'`. Flags and their spellings are those of the engine's release.

mod flags;
mod manifest;
mod meaning;
mod words;

pub use manifest::{LaunchedPool, pools};

use gpuwise_domain::{
    engine::{EngineKind, Release},
    facts::{EngineFacts, Launch},
};
use words::Script;

/// A command is some lines; the limit bounds what its parser may be made to do.
const LONGEST_COMMAND: usize = 1 << 18;

/// Why a launch command could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    #[error("the command has {length} bytes; a launch command has at most {LONGEST_COMMAND}")]
    TooLong { length: usize },
    #[error("a {quote} quote is not closed; it was opened before `{before}`")]
    Quote { quote: &'static str, before: String },
    #[error(
        "no engine is started in `{command}`; expected `vllm serve`, `python -m sglang.launch_server`, \
         `trtllm-serve`, `llama-server`, `transformers serve`, or a `docker run` of one"
    )]
    NoEngine { command: String },
    #[error("{engine}: the catalogue has no facts of this engine, so its flags cannot be read")]
    NoFacts { engine: EngineKind },
    /// A flag without its value.
    #[error("`{flag}` has no value; expected {expected}")]
    MissingValue {
        flag: String,
        expected: &'static str,
    },
    /// A value that cannot be read.
    #[error("`{flag} {value}`: expected {expected}")]
    BadValue {
        flag: String,
        value: String,
        expected: &'static str,
    },
    /// A settings file that is no YAML.
    #[error("settings file {file}: {problem}")]
    SettingsFile { file: String, problem: String },
}

/// Reads the first launch command of a text. `release` is the engine's, where the caller knows it;
/// otherwise it is that of the image tag, or unstated (flags are then those of the newest).
///
/// Flags that the release does not have are listed in [`Launch::unknown`], with those like them.
///
/// # Errors
/// When no engine is started, a quote is left open, or a value cannot be read.
pub fn parse(
    text: &str,
    facts: &[EngineFacts],
    release: Option<Release>,
) -> Result<Launch, LaunchError> {
    let mut launches = parse_all(text, facts, release)?.into_iter();
    launches.next().ok_or_else(|| LaunchError::NoEngine {
        command: beginning(text),
    })
}

/// Reads every launch command of a text: disaggregated serving has one for each pool.
///
/// # Errors
/// When a quote is left open, or a value cannot be read.
pub fn parse_all(
    text: &str,
    facts: &[EngineFacts],
    release: Option<Release>,
) -> Result<Vec<Launch>, LaunchError> {
    if text.len() > LONGEST_COMMAND {
        return Err(LaunchError::TooLong { length: text.len() });
    }
    let script = Script::read(text)?;
    let mut launches = Vec::new();
    for command in &script.commands {
        let Some(start) = words::start_of(command, facts)? else {
            continue;
        };
        let known = facts
            .iter()
            .find(|known| known.engine == start.engine)
            .ok_or(LaunchError::NoFacts {
                engine: start.engine,
            })?;
        let release = release.or(start.release);
        let read = flags::read(&start.words, known, release)?;
        launches.push(meaning::launch(read, &script, known, release)?);
    }
    Ok(launches)
}

/// The beginning of a text on one line, for messages.
fn beginning(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(60) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or("")),
        None => line,
    }
}
