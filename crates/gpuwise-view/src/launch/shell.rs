//! Commands for a shell, and the YAML of settings files.

use super::arguments::{Script, Server};
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// Comments, then one command for each pool.
pub(super) fn commands(script: &Script) -> String {
    let mut out = comments(script);
    for server in &script.servers {
        if let Some(pool) = server.pool() {
            let _ = writeln!(out, "# {pool} pool");
        }
        if server.replicas > 1 {
            let _ = writeln!(
                out,
                "# start this {} times, each on {}, behind a load balancer",
                server.replicas,
                own_gpus(server.gpus)
            );
        }
        if let Some((name, text)) = &server.file {
            let _ = write!(out, "cat > {name} <<'EOF'\n{text}EOF\n");
        }
        out.push_str(&command(&server.words, server));
    }
    out
}

fn own_gpus(gpus: u32) -> String {
    if gpus == 1 {
        "a GPU of its own".into()
    } else {
        format!("{gpus} GPUs of its own")
    }
}

pub(super) fn comments(script: &Script) -> String {
    let mut out = String::new();
    for note in &script.notes {
        // A name with a line end would go on as a command.
        let _ = writeln!(out, "# {}", note.replace(char::is_control, " "));
    }
    out
}

/// One command over several lines, a flag on each.
pub(super) fn command(words: &[String], server: &Server) -> String {
    let mut out = words
        .iter()
        .map(|word| quoted(word))
        .collect::<Vec<_>>()
        .join(" ");
    for (flag, value) in &server.flags {
        let _ = write!(out, " \\\n  {flag}");
        if let Some(value) = value {
            let _ = write!(out, " {}", quoted(value));
        }
    }
    out.push('\n');
    out
}

/// A word as a shell reads it back unchanged.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

pub(super) fn yaml(keys: &Map<String, Value>) -> String {
    let mut out = String::new();
    write_map(&mut out, keys, 0);
    out
}

fn write_map(out: &mut String, keys: &Map<String, Value>, depth: usize) {
    for (key, value) in keys {
        let indent = "  ".repeat(depth);
        match value {
            Value::Object(inner) => {
                let _ = writeln!(out, "{indent}{key}:");
                write_map(out, inner, depth + 1);
            }
            // Scalars of JSON are scalars of YAML.
            Value::String(text) if plain_scalar(text) => {
                let _ = writeln!(out, "{indent}{key}: {text}");
            }
            other => {
                let _ = writeln!(out, "{indent}{key}: {other}");
            }
        }
    }
}

/// Whether a text is a text in YAML without quotes.
fn plain_scalar(text: &str) -> bool {
    let word = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let reserved = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    word && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && !reserved
            .iter()
            .any(|taken| taken.eq_ignore_ascii_case(text))
}
