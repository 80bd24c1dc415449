//! Text inside of HTML, SVG and Markdown.

/// Text for the content or an attribute of HTML and XML; what XML cannot hold becomes `�`.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(' '),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            other if other.is_control() => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

/// Text for a paragraph or a table cell of Markdown.
pub fn escape_markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '\\' | '|' | '*' | '`' | '[' | ']' => {
                out.push('\\');
                out.push(character);
            }
            // Within a word an underscore is no emphasis.
            '_' if !(before.is_alphanumeric()
                && rest.peek().is_some_and(|next| next.is_alphanumeric())) =>
            {
                out.push_str("\\_");
            }
            other if other.is_control() => out.push(' '),
            other => out.push(other),
        }
        before = character;
    }
    out
}
