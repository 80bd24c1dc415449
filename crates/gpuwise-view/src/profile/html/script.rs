//! The page's own style and script.

/// Rules of the page beyond those of all pages.
pub(super) fn style() -> String {
    include_str!("style.css").to_owned() + &crate::profile::palette::style()
}

/// SHA-256 of [`script`] as base64, which is all that the page may run. A test says when it is to
/// be replaced, and by what.
pub(super) const HASH: &str = "TgM5VM9PdtQK1p12JhQJYrOuGSJ0q0+racjNcI90b3s=";

const PARTS: [&str; 5] = [
    include_str!("codec.js"),
    include_str!("paint.js"),
    include_str!("timeline.js"),
    include_str!("inspect.js"),
    include_str!("page.js"),
];

/// The script without comments and indentation.
pub(super) fn script() -> String {
    let mut out = String::from("(()=>{'use strict';\n");
    for line in PARTS.iter().flat_map(|part| part.lines()) {
        let line = line.trim();
        let comment = ["//", "/*", "*/", "* "]
            .iter()
            .any(|sign| line.starts_with(sign));
        if !line.is_empty() && !comment {
            out += line;
            out.push('\n');
        }
    }
    out + "})();\n"
}
