//! What is wrong with the flags themselves, in the program's own words where the parser's mislead.

use clap::{
    Error,
    error::{ContextKind, ContextValue, ErrorKind},
};
use gpuwise_app::commands::OPTIONAL;

/// What to say instead of the parser's words; `None` where those are right.
pub(crate) fn told(error: &Error, arguments: &[String]) -> Option<String> {
    match error.kind() {
        ErrorKind::UnknownArgument => negative(error, arguments),
        ErrorKind::ValueValidation => value(error),
        ErrorKind::InvalidSubcommand => not_built(error),
        _ => None,
    }
}

fn context(error: &Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text),
        _ => None,
    }
}

/// A command that another build has.
fn not_built(error: &Error) -> Option<String> {
    let command = context(error, ContextKind::InvalidSubcommand)?;
    let (_, feature) = OPTIONAL.iter().find(|(name, _)| *name == command)?;
    Some(format!(
        "error: {command}: this gpuwise was built without the feature {feature}; build it with `cargo build --release -p gpuwise --features {feature}`\n"
    ))
}

/// A value that begins with a minus, which the parser takes for a flag.
fn negative(error: &Error, arguments: &[String]) -> Option<String> {
    let argument = context(error, ContextKind::InvalidArg)?;
    let is_number = |text: &str| {
        let rest = text.strip_prefix('-');
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
    };
    let at = arguments
        .iter()
        .position(|word| is_number(word) && (word == argument || word.starts_with(argument)))?;
    let value = arguments.get(at)?;
    let flag = at
        .checked_sub(1)
        .and_then(|before| arguments.get(before))
        .filter(|word| word.starts_with("--"))?;
    Some(format!("error: {flag} {value}: it is negative\n"))
}

/// A value that is no number, or none of the range.
fn value(error: &Error) -> Option<String> {
    let argument = context(error, ContextKind::InvalidArg)?;
    let value = context(error, ContextKind::InvalidValue)?;
    let flag = argument.split([' ', '=']).next()?;
    let source = std::error::Error::source(error)?.to_string();
    let wanted = match source.as_str() {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            "it is no whole number".to_owned()
        }
        "invalid float literal" | "cannot parse float from empty string" => {
            "it is no number".to_owned()
        }
        "number too large to fit in target type" => "it is too large".to_owned(),
        other => match other.split_once(" is not in ")?.1.split_once("..")? {
            (least, most) if most.len() >= 19 => format!("it must be {least} or more"),
            (least, most) => format!(
                "it must be from {least} to {}",
                most.trim_start_matches('=')
            ),
        },
    };
    Some(format!("error: {flag} {value}: {wanted}\n"))
}

#[cfg(test)]
mod tests {
    use super::told;
    use crate::cli::definition;

    fn said(line: &str) -> Option<String> {
        let words: Vec<String> = line.split(' ').map(Into::into).collect();
        let error = definition().try_get_matches_from(&words).err()?;
        told(&error, &words)
    }

    #[test]
    fn a_negative_value_is_told_as_one() {
        for (line, expected) in [
            (
                "gpuwise plan m --rate -3",
                Some("error: --rate -3: it is negative\n"),
            ),
            (
                "gpuwise plan m --budget -20USD",
                Some("error: --budget -20USD: it is negative\n"),
            ),
            ("gpuwise plan m --nonsense", None),
        ] {
            assert_eq!(said(line).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn a_command_of_another_build_is_told_with_its_feature() {
        let without = clap::Command::new("gpuwise").subcommand(clap::Command::new("plan"));
        let said = |name: &str| {
            let words = ["gpuwise".to_owned(), name.to_owned()];
            told(&without.clone().try_get_matches_from(&words).err()?, &words)
        };
        let operator = said("operator").expect("words of our own");
        assert!(operator.contains("--features kubernetes"), "{operator}");
        assert_eq!(said("nonsense"), None);
    }

    #[test]
    fn numbers_are_told_by_their_range() {
        for (line, expected) in [
            (
                "gpuwise plan m --tp 0",
                "error: --tp 0: it must be from 1 to 1024\n",
            ),
            (
                "gpuwise plan m --tp x",
                "error: --tp x: it is no whole number\n",
            ),
            (
                "gpuwise simulate d --requests 0",
                "error: --requests 0: it must be 1 or more\n",
            ),
        ] {
            assert_eq!(said(line).as_deref(), Some(expected), "{line}");
        }
    }
}
