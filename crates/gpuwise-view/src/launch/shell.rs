//! Commands for a shell.

use super::arguments::{Script, Server};
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
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
