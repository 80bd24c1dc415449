//! Text that comes from outside: names and other short text are of one line, wherever they stand in a request.
//!
//! What is kept ends up in tables, logs, pages, headers and the environment of processes. A control character or one
//! that turns the direction of text makes one row look like two, or like another's. Requests are looked at here once,
//! before any part of them is read: a field that is added later is looked at, too.

use super::Problem;
use serde_json::Value;

/// Fields of which text may have several lines: arguments of programs, values of variables and secrets.
const TEXTS: [&str; 3] = ["command", "env", "secret"];

/// Fields that name something, and how long a name may be.
const NAMES: [&str; 4] = ["name", "project", "tenant", "queue"];
const LONGEST: usize = 255;
/// What formulas begin with in spreadsheets, which open our CSV.
const FORMULAS: [char; 4] = ['=', '+', '-', '@'];

/// Text of one line, without characters that change how what stands around it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OneLine<'t>(&'t str);

impl<'t> OneLine<'t> {
    /// # Errors
    /// The first character that may not be in it.
    pub(crate) fn parse(text: &'t str) -> Result<Self, char> {
        match text.chars().find(|one| is_control(*one)) {
            Some(one) => Err(one),
            None => Ok(Self(text)),
        }
    }

    pub(crate) const fn text(self) -> &'t str {
        self.0
    }
}

/// Text of which only its author answers for what is in it, such as the name of a process: on one line, with `?` for what
/// may not be there.
pub(crate) fn on_one_line(text: &str) -> String {
    let each = text.chars();
    each.map(|one| if is_control(one) { '?' } else { one })
        .collect()
}

fn is_control(one: char) -> bool {
    // What has no width, separators of lines and paragraphs, marks and overrides of direction, tags.
    one.is_control()
        || matches!(
            one,
            '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}'
        )
}

/// Whether all text of a request may be kept.
///
/// # Errors
/// The first field whose text may not.
pub(super) fn checked(body: &Value) -> Result<(), Problem> {
    looked_at(body, &mut Vec::new())
}

fn looked_at<'v>(value: &'v Value, path: &mut Vec<&'v str>) -> Result<(), Problem> {
    match value {
        Value::String(text) => {
            let lines = path.first().is_some_and(|first| TEXTS.contains(first));
            let wrong = if lines {
                text.chars().find(|one| *one == '\0')
            } else {
                OneLine::parse(text).err()
            };
            if path.last().is_some_and(|last| NAMES.contains(last))
                && text.chars().count() > LONGEST
            {
                let what = format!("{} characters: at most {LONGEST}", text.chars().count());
                return Err(Problem::invalid(&path.join("."), what));
            }
            if path.last().is_some_and(|last| NAMES.contains(last))
                && let Some(first) = text.chars().next().filter(|one| FORMULAS.contains(one))
            {
                let what = format!(
                    "it begins with {first:?}, which spreadsheets take for a formula: begin with a letter or digit"
                );
                return Err(Problem::invalid(&path.join("."), what));
            }
            wrong.map_or(Ok(()), |one| Err(problem(path, one)))
        }
        Value::Array(all) => all.iter().try_for_each(|one| looked_at(one, path)),
        Value::Object(all) => all.iter().try_for_each(|(name, one)| {
            if let Err(wrong) = OneLine::parse(name) {
                return Err(problem(path, wrong));
            }
            path.push(name);
            looked_at(one, path)?;
            path.pop();
            Ok(())
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

fn problem(path: &[&str], wrong: char) -> Problem {
    let field = if path.is_empty() {
        "body".to_owned()
    } else {
        path.join(".")
    };
    let what = format!(
        "it holds U+{:04X}, a character of control or without width: expected text of one line",
        u32::from(wrong)
    );
    Problem::invalid(&field, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn field(body: &Value) -> Option<String> {
        checked(body)
            .err()
            .and_then(|problem| problem.document().field)
    }

    #[test]
    fn what_others_named_is_shown_on_one_line() {
        assert_eq!(on_one_line("a\nb\u{202e}\u{1b}[1m é"), "a?b??[1m é");
    }

    #[test]
    fn names_are_of_one_line_and_arguments_need_not_be() {
        for (body, wrong) in [
            (
                json!({"name": "train-7", "project": "Vision, 2. Ökosystem"}),
                None,
            ),
            (json!({"name": "a\rb"}), Some("name")),
            (json!({"name": "a\nb"}), Some("name")),
            (json!({"name": "a\0b"}), Some("name")),
            (json!({"name": "a\u{1b}[31mb"}), Some("name")),
            (json!({"project": "a\u{202e}b"}), Some("project")),
            (json!({"project": "a\u{200b}"}), Some("project")),
            (json!({"name": "\u{feff}a"}), Some("name")),
            (json!({"name": "x".repeat(256)}), Some("name")),
            (json!({"name": "x".repeat(255)}), None),
            (json!({"name": "=HYPERLINK(\"x\")"}), Some("name")),
            (json!({"project": "-2+3"}), Some("project")),
            (json!({"name": "a=b-c"}), None),
            (
                json!({"service": {"model": "m\u{85}"}}),
                Some("service.model"),
            ),
            (json!({"labels": {"a\n": "b"}}), Some("labels")),
            (json!({"quality": ["a>=1", "b\n>=1"]}), Some("quality")),
            (json!([{"id": "x\u{2028}"}]), Some("id")),
            (
                json!({"command": ["sh", "-c", "one\ntwo"], "env": {"A": "1\n2\t"}}),
                None,
            ),
            (json!({"command": ["a\0"]}), Some("command")),
            (json!({"env": {"A": "\0"}}), Some("env.A")),
            (json!({"env": {"A\nB": "1"}}), Some("env")),
            (json!({"reason": "it\nfits"}), Some("reason")),
        ] {
            assert_eq!(field(&body).as_deref(), wrong, "{body}");
        }
    }

    #[test]
    fn of_all_characters_those_pass_that_are_one_line_of_plain_text() {
        for one in '\0'..=char::MAX {
            let name = format!("a{one}b");
            let plain = name.lines().count() == 1
                && !one.is_control()
                // By code points: soft hyphen, Mongolian separator, marks without width, those of direction, tags.
                && ![0xad, 0x180e, 0xfeff].contains(&u32::from(one))
                && ![0x200b..0x2010, 0x2028..0x202f, 0x2060..0x2070, 0xe0000..0xe0080]
                    .iter()
                    .any(|range| range.contains(&u32::from(one)));
            assert_eq!(
                OneLine::parse(&name).is_ok(),
                plain,
                "U+{:04X}",
                u32::from(one)
            );
        }
    }
}
