//! From a shell text to commands of words, and to the place where an engine is started.

use super::{LaunchError, beginning};
use gpuwise_domain::{
    engine::{EngineKind, Release},
    facts::{EngineFacts, release_of},
};

/// A shell text: commands as words, and the files that it writes.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) commands: Vec<Vec<String>>,
    /// Files written from here documents, by name.
    pub(super) files: Vec<(String, String)>,
}

impl Script {
    pub(super) fn read(text: &str) -> Result<Self, LaunchError> {
        let (rest, files) = here_documents(text);
        Ok(Self {
            commands: commands(&rest)?,
            files,
        })
    }

    /// The file of this name, wherever it is mounted.
    pub(super) fn file(&self, path: &str) -> Option<&(String, String)> {
        let base = |path: &str| path.rsplit('/').next().unwrap_or(path).to_string();
        self.files.iter().find(|(name, _)| base(name) == base(path))
    }
}

/// Takes `cat > FILE <<'EOF'` … `EOF` out of a text.
fn here_documents(text: &str) -> (String, Vec<(String, String)>) {
    let mut rest = String::with_capacity(text.len());
    let mut files = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some((before, mark)) = line.split_once("<<") else {
            rest.push_str(line);
            rest.push('\n');
            continue;
        };
        let mark = mark.trim_start_matches('-').trim();
        let mark = mark
            .split_whitespace()
            .next()
            .unwrap_or("")
            .trim_matches(['\'', '"']);
        let name = before.split_once('>').map_or("", |(_, name)| name).trim();
        let body: Vec<&str> = lines
            .by_ref()
            .take_while(|line| line.trim() != mark)
            .collect();
        files.push((name.trim_matches(['\'', '"']).to_string(), body.join("\n")));
    }
    (rest, files)
}

/// Splits a text into commands and their words as a shell does, variables left as they are.
fn commands(text: &str) -> Result<Vec<Vec<String>>, LaunchError> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let after = rest.get(c.len_utf8()..).unwrap_or("");
        match c {
            '\'' | '"' => {
                let (quoted, behind) = quoted(c, after)?;
                word.get_or_insert_default().push_str(&quoted);
                rest = behind;
                continue;
            }
            '\\' => {
                let mut escaped = after.chars();
                match escaped.next() {
                    Some('\n') | None => {}
                    // A line end as some systems write it.
                    Some('\r') if escaped.as_str().starts_with('\n') => {}
                    Some(other) => word.get_or_insert_default().push(other),
                }
                rest = escaped.as_str();
                continue;
            }
            '#' if word.is_none() => {
                rest = after
                    .find('\n')
                    .and_then(|at| after.get(at..))
                    .unwrap_or("");
                continue;
            }
            // Flags on lines of their own are pasted without the `\` before them.
            '\n' if after.trim_start().starts_with('-') => ended(&mut word, &mut commands),
            '\n' | ';' | '|' | '&' => {
                ended(&mut word, &mut commands);
                commands.push(Vec::new());
            }
            c if c.is_whitespace() => ended(&mut word, &mut commands),
            c => word.get_or_insert_default().push(c),
        }
        rest = after;
    }
    ended(&mut word, &mut commands);
    commands.retain(|command| !command.is_empty());
    Ok(commands)
}

fn ended(word: &mut Option<String>, commands: &mut [Vec<String>]) {
    if let (Some(word), Some(command)) = (word.take(), commands.last_mut()) {
        command.push(word);
    }
}

/// The text up to the closing quote, and what stands behind it.
fn quoted(quote: char, text: &str) -> Result<(String, &str), LaunchError> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            c if c == quote => return Ok((out, chars.as_str())),
            '\\' if quote == '"' => match chars.next() {
                Some('\n') => {}
                Some(c @ ('"' | '\\' | '$' | '`')) => out.push(c),
                Some(c) => out.extend(['\\', c]),
                None => break,
            },
            c => out.push(c),
        }
    }
    Err(LaunchError::Quote {
        quote: if quote == '"' { "double" } else { "single" },
        before: beginning(text),
    })
}

/// Where an engine is started: its arguments follow.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) engine: EngineKind,
    pub(super) release: Option<Release>,
    pub(super) words: Vec<String>,
}

/// Finds what a command starts, if it is an engine.
pub(super) fn start_of(
    command: &[String],
    facts: &[EngineFacts],
) -> Result<Option<Start>, LaunchError> {
    if let Some((engine, release, words)) = in_container(command, facts) {
        let started = launcher(&words)?;
        return Ok(Some(match started {
            Some(start) => Start {
                release: start.release.or(release.filter(|_| start.engine == engine)),
                ..start
            },
            // The image itself starts the server.
            None => Start {
                engine,
                release,
                words,
            },
        }));
    }
    launcher(command)
}

/// The words after the image of an engine, with its entry point before them.
fn in_container(
    command: &[String],
    facts: &[EngineFacts],
) -> Option<(EngineKind, Option<Release>, Vec<String>)> {
    let runs = |word: &String| matches!(base(word), "docker" | "podman" | "nerdctl");
    command.iter().find(|word| runs(word))?;
    let (at, engine, tag) = command.iter().enumerate().find_map(|(at, word)| {
        let name = word.split_once('@').map_or(word.as_str(), |(name, _)| name);
        let slash = name.rfind('/').unwrap_or(0);
        let colon = name.rfind(':').filter(|colon| *colon > slash);
        let (repository, tag) = colon.map_or((name, ""), |colon| name.split_at(colon));
        let repository = repository.strip_prefix("docker.io/").unwrap_or(repository);
        let known = facts.iter().find(|facts| {
            facts
                .images
                .iter()
                .any(|image| image.repository == repository)
        })?;
        Some((at, known.engine, tag))
    })?;
    let mut words: Vec<String> = Vec::new();
    let mut options = command.iter().take(at);
    while let Some(word) = options.next() {
        if let Some(entry) = word.strip_prefix("--entrypoint") {
            words.extend(
                entry
                    .strip_prefix('=')
                    .map(String::from)
                    .or_else(|| options.next().cloned()),
            );
        }
    }
    words.extend(command.iter().skip(at + 1).cloned());
    Some((engine, release_in_tag(engine, tag), words))
}

/// `:v0.11.0`, `:server-cuda-b9000`, `:v0.5.3-cu129`.
fn release_in_tag(engine: EngineKind, tag: &str) -> Option<Release> {
    tag.trim_start_matches(':')
        .split('-')
        .find_map(|part| release_of(engine, part))
}

/// The last part of a path.
fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// The engine that a command starts, and how many words that takes.
fn started(command: &[String]) -> Option<(EngineKind, usize)> {
    let begins = |start: &[&str]| {
        command.len() >= start.len()
            && base(&command[0]) == start[0]
            && command[1..]
                .iter()
                .zip(&start[1..])
                .all(|(said, word)| said == word)
    };
    EngineKind::ALL.into_iter().find_map(|kind| {
        let start = kind.starts().iter().find(|start| begins(start))?;
        Some((kind, start.len()))
    })
}

/// Finds the words that start a server, and what follows them.
fn launcher(command: &[String]) -> Result<Option<Start>, LaunchError> {
    for at in 0..command.len() {
        // A command within a command: `bash -c "vllm serve …"`.
        if at > 0
            && matches!(command[at].as_str(), "-c" | "-lc")
            && matches!(base(&command[at - 1]), "bash" | "sh")
        {
            let inner = command.get(at + 1).map_or("", String::as_str);
            let script = Script::read(inner)?;
            let mut inner = script.commands.iter().map(|command| launcher(command));
            return inner.find_map(Result::transpose).transpose();
        }
        let Some((engine, taken)) = started(&command[at..]) else {
            continue;
        };
        return Ok(Some(Start {
            engine,
            release: None,
            words: command.iter().skip(at + taken).cloned().collect(),
        }));
    }
    Ok(None)
}
