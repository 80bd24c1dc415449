//! Files in which somebody put several outputs one after the other, each under a title and the command.

use super::{TelemetryError, fields::FieldNames};
use gpuwise_domain::telemetry::Telemetry;

/// Outputs of one file.
const MOST_SECTIONS: usize = 10_000;

/// Whether a text holds titles such as `# idle :: query (-q)`.
pub(super) fn is_capture(text: &str) -> bool {
    text.lines().any(|line| title(line).is_some())
}

fn title(line: &str) -> Option<&str> {
    let title = line.strip_prefix("# ")?;
    let (stage, what) = title.split_once(" :: ")?;
    let plain = |text: &str| !text.is_empty() && !text.contains('{');
    (plain(stage) && plain(what) && !stage.contains(' ')).then_some(title)
}

pub(super) fn read(text: &str, names: &FieldNames) -> Vec<Telemetry> {
    let mut sections: Vec<(String, String)> =
        vec![("before the first title".into(), String::new())];
    for line in text.lines() {
        if let Some(title) = title(line) {
            if sections.len() >= MOST_SECTIONS {
                break;
            }
            sections.push((title.into(), String::new()));
        } else if line.starts_with("# $ ") || line.starts_with("####") {
            // The command, and rules.
        } else if let Some((_, content)) = sections.last_mut() {
            content.push_str(line);
            content.push('\n');
        }
    }
    sections
        .into_iter()
        .filter(|(_, content)| !content.trim().is_empty())
        .map(|(section, content)| section_of(section, &content, names))
        .collect()
}

fn section_of(section: String, content: &str, names: &FieldNames) -> Telemetry {
    let mut found = match super::one(content, names) {
        Ok(found) => found,
        Err(error) => Telemetry {
            form: "text".into(),
            notes: vec![match error {
                TelemetryError::Unknown | TelemetryError::Form(_) => format!(
                    "{} lines of text without readings, which begin with {:?}",
                    content
                        .lines()
                        .filter(|line| !line.trim().is_empty())
                        .count(),
                    content.trim().chars().take(40).collect::<String>()
                ),
                TelemetryError::TooLarge => error.to_string(),
            }],
            ..Telemetry::default()
        },
    };
    found.section = Some(section);
    found
}
