//! The command line.

use clap::{Args, Command as Definition, CommandFactory as _, Parser, Subcommand};
use gpuwise_app::{commands::Command, settings::Global};
use std::fmt::Write as _;

/// Finds the GPUs that a language model and an SLO need: which, how many, rented where, at what
/// price, with which settings, and how sure that is.
#[derive(Debug, Parser)]
#[command(
    name = "gpuwise",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Invocation,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Invocation {
    #[command(flatten)]
    Ask(Box<Command>),
    /// Print a completion script for a shell
    Completions(Completions),
    /// Print the manual page of gpuwise or of one command
    Man(Man),
    /// Print an example of a file that commands read, or a file of the catalogue
    ///
    /// To see its form, and to begin one's own: files of the catalogue's form, with rows changed or added,
    /// count in $GPUWISE_CATALOGUE. Without a name, all names are listed, each with what reads it.
    Example(Example),
    /// Print the JSON Schema of an answer or a saved file
    ///
    /// Every JSON says its own in `schema`: `gpuwise.memory/v1` is printed by `gpuwise schema memory`.
    /// Without a name, all names are listed.
    Schema(Schema),
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// The command; without it, gpuwise itself
    pub(crate) name: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Schema {
    /// Which, as `schema` of the JSON says
    pub(crate) name: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Example {
    /// Which, as the list has it, such as fleet.toml
    pub(crate) name: Option<String>,
}

/// Commands as a person meets them.
const GROUPS: [(&str, &[&str]); 8] = [
    (
        "Plan",
        &[
            "plan", "memory", "table", "optimize", "train", "composed", "check", "predict",
        ],
    ),
    (
        "Prove",
        &["simulate", "validate", "bench", "compare", "evidence"],
    ),
    ("Profile", &["profile", "tier", "operators", "runs"]),
    (
        "Fleet",
        &[
            "fleet", "place", "lint", "capacity", "replay", "forecast", "scale", "watch", "audit",
        ],
    ),
    (
        "Serve",
        &[
            "serve",
            "operator",
            "epp",
            "engine",
            "doctor",
            "tenant",
            "lease",
            "slo",
            "usage",
            "proposal",
            "policy",
            "secret",
            "node",
            "reservation",
            "prices",
            "statement",
            "top",
            "token",
            "store",
        ],
    ),
    ("Cost", &["offers", "tco"]),
    (
        "Data",
        &["gpus", "models", "workload", "calibrate", "accuracy"],
    ),
    ("Help", &["example", "schema", "completions", "man", "help"]),
];

/// The command line, whose help shows commands in groups.
pub(crate) fn definition() -> Definition {
    let command = Cli::command();
    let list = grouped(&command);
    command.help_template(format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n{list}\nOptions:\n{{options}}"
    ))
}

fn grouped(command: &Definition) -> String {
    let mut built = command.clone();
    built.build();
    let width = built
        .get_subcommands()
        .map(|known| known.get_name().len())
        .max()
        .unwrap_or_default();
    let style = built.get_styles();
    let (header, literal) = (style.get_header(), style.get_literal());
    let mut text = String::new();
    for (title, names) in GROUPS {
        let _ = write!(text, "\n{header}{title}:{header:#}\n");
        let known = names.iter().filter_map(|name| built.find_subcommand(name));
        for known in known {
            let about = known.get_about().map(ToString::to_string);
            let _ = writeln!(
                text,
                "  {literal}{:width$}{literal:#}  {}",
                known.get_name(),
                about.unwrap_or_default(),
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_group() {
        let mut built = Cli::command();
        built.build();
        for known in built.get_subcommands().filter(|known| !known.is_hide_set()) {
            let name = known.get_name();
            let groups = GROUPS.iter().filter(|(_, names)| names.contains(&name));
            assert_eq!(groups.count(), 1, "{name}");
        }
    }

    #[test]
    fn optional_commands_are_there_with_their_feature_alone() {
        let built = Cli::command();
        let features = [
            ("bench", cfg!(feature = "bench")),
            ("database", cfg!(feature = "database")),
            ("kubernetes", cfg!(feature = "kubernetes")),
            ("serve", cfg!(feature = "serve")),
        ];
        for (name, feature) in gpuwise_app::commands::OPTIONAL {
            let on = features.iter().find(|(known, _)| *known == feature);
            assert_eq!(
                Some(built.find_subcommand(name).is_some()),
                on.map(|(_, on)| *on),
                "{name}"
            );
        }
    }

    /// What an argument requires, by id; clap tells it nowhere else.
    fn required_by(argument: &clap::Arg) -> Vec<String> {
        let shown = format!("{argument:?}");
        let list = shown
            .split_once("requires: [")
            .and_then(|(_, rest)| rest.split_once(']'))
            .map_or("", |(list, _)| list);
        let ids = list.split('"').skip(1).step_by(2);
        ids.map(ToOwned::to_owned).collect()
    }

    /// clap lets an argument pass without what it requires where something else forbids that: it would be ignored.
    fn unanswered(command: &clap::Command, path: &str, out: &mut Vec<String>) {
        let path = format!("{path} {}", command.get_name());
        for argument in command.get_arguments() {
            let own: Vec<_> = command.get_arg_conflicts_with(argument);
            for id in required_by(argument) {
                let needed = command.get_arguments().find(|one| *one.get_id() == id);
                for other in needed.map_or_else(Vec::new, |one| command.get_arg_conflicts_with(one))
                {
                    let known = own.iter().any(|one| one.get_id() == other.get_id());
                    if !known && other.get_id() != argument.get_id() {
                        out.push(format!(
                            "{path}: {} and {}",
                            argument.get_id(),
                            other.get_id()
                        ));
                    }
                }
            }
        }
        for one in command.get_subcommands() {
            unanswered(one, &path, out);
        }
    }

    #[test]
    fn what_needs_another_argument_is_refused_where_that_cannot_be() {
        let mut built = Cli::command();
        built.build();
        let mut out = Vec::new();
        unanswered(&built, "", &mut out);
        assert!(
            out.is_empty(),
            "conflicts_with is missing:\n{}",
            out.join("\n")
        );
    }

    #[test]
    fn help_fits_a_terminal() {
        let text = definition().render_help().to_string();
        let wide = text.lines().find(|line| line.chars().count() > 100);
        assert_eq!(wide, None);
    }
}
