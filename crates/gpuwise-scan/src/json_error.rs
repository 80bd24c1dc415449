//! What is wrong with a JSON text, in a user's words.

use serde_json::error::Category;

/// What is wrong, without its line and column, which callers name.
pub fn json_error(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let problem = text.strip_suffix(&place).unwrap_or(&text);
    match (error.classify(), problem) {
        (Category::Eof, _) => "the text ends within a value".into(),
        (Category::Syntax, "expected value") => "no JSON value begins here".into(),
        _ => problem.into(),
    }
}

/// The same with its line, for a whole file.
pub fn with_line(error: &serde_json::Error) -> String {
    format!("line {}: {}", error.line().max(1), json_error(error))
}
