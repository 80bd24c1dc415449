//! Selectors of series in PromQL.

use std::fmt::Write as _;

/// `metric{matchers}`.
pub(super) fn selector(metric: &str, matchers: &[String]) -> String {
    let matchers: Vec<&str> = matchers
        .iter()
        .map(String::as_str)
        .filter(|m| !m.is_empty())
        .collect();
    if matchers.is_empty() {
        metric.into()
    } else {
        format!("{metric}{{{}}}", matchers.join(","))
    }
}

/// `label=~"a|b"`, of these values and no others.
pub(super) fn one_of<'a>(label: &str, values: impl IntoIterator<Item = &'a str>) -> String {
    let mut out = format!("{label}=~\"");
    for (index, value) in values.into_iter().enumerate() {
        if index > 0 {
            out.push('|');
        }
        for c in value.chars() {
            match c {
                // A regular expression's own signs, then the string's.
                '.' | '+' | '*' | '?' | '(' | ')' | '|' | '[' | ']' | '{' | '}' | '^' | '$' => {
                    let _ = write!(out, "\\\\{c}");
                }
                '\\' => out.push_str("\\\\\\\\"),
                '"' => out.push_str("\\\""),
                '\n' => out.push_str("\\n"),
                c => out.push(c),
            }
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::{one_of, selector};

    #[test]
    fn values_are_meant_as_they_are() {
        assert_eq!(one_of("pod", ["a-1", "b.c"]), r#"pod=~"a-1|b\\.c""#);
        assert_eq!(one_of("pod", [r#"x"\y"#]), r#"pod=~"x\"\\\\y""#);
        assert_eq!(selector("up", &[]), "up");
        assert_eq!(
            selector("up", &["a=\"b\"".into(), String::new()]),
            "up{a=\"b\"}"
        );
    }
}
