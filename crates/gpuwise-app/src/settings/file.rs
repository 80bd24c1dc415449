//! Settings that a project or a user keeps in a file: they stand in for flags that are not given.
//!
//! `gpuwise.toml` of the working directory or the nearest one above it wins over `settings.toml` of
//! the user's configuration directory, flags and environment win over both. A key is the long name of
//! a flag; at the top it holds for every command that has the flag, in a table for the command that
//! the table is named after.

use crate::{catalogue::user_directory, error::Problem};
use clap::{Arg, ArgAction, Command, builder::ArgPredicate, error::ErrorKind};
use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};
use toml::{Table, Value};

/// The name of a project's file.
pub const PROJECT_FILE: &str = "gpuwise.toml";
/// The name of a user's file in the configuration directory.
pub const USER_FILE: &str = "settings.toml";

/// Flags of which one takes the place of the others: given on the command line, it does so in a file.
const EXCLUSIVE: &[&[&str]] = &[&["rate", "concurrency"]];

/// Settings of files, the weakest first.
#[derive(Debug, Clone, Default)]
pub struct Files(Vec<(PathBuf, Table)>);

impl Files {
    /// Those of the user and of the project that this process stands in.
    ///
    /// # Errors
    /// When a file cannot be read, or is no TOML.
    pub fn here() -> anyhow::Result<Self> {
        let user = user_directory().map(|directory| directory.join(USER_FILE));
        let project = env::current_dir().ok().and_then(|here| {
            let mut above = here.ancestors().map(|folder| folder.join(PROJECT_FILE));
            above.find(|file| file.is_file())
        });
        let found = user.into_iter().filter(|file| file.is_file());
        Self::read(found.chain(project))
    }

    /// The same, and over them the file that `--config` names among these arguments.
    ///
    /// # Errors
    /// As [`Files::here`].
    pub fn with_config(self, arguments: impl Iterator<Item = OsString>) -> anyhow::Result<Self> {
        let Some(file) = config(arguments) else {
            return Ok(self);
        };
        let Self(own) = Self::read([file])?;
        let Self(mut all) = self;
        all.extend(own);
        Ok(Self(all))
    }

    /// Those of these files, the weakest first.
    ///
    /// # Errors
    /// As [`Files::here`].
    pub fn read(files: impl IntoIterator<Item = PathBuf>) -> anyhow::Result<Self> {
        let read = |file: PathBuf| {
            let text = fs::read_to_string(&file).map_err(|error| {
                Problem::new(format!("cannot read {}", file.display())).because(error)
            })?;
            let table = text.parse::<Table>().map_err(|error| {
                let before = error.span().and_then(|span| text.get(..span.start));
                let line = before.map_or(1, |before| before.matches('\n').count() + 1);
                let what = error.message().replace('\n', "; ");
                Problem::new(format!("{}, line {line}: {what}", file.display()))
            })?;
            Ok((file, table))
        };
        let files: anyhow::Result<_> = files.into_iter().map(read).collect();
        Ok(Self(files?))
    }

    /// A command whose flags have what the files say for a default.
    ///
    /// # Errors
    /// When a key is no flag, or a value is not of its form.
    pub fn apply(&self, mut command: Command) -> anyhow::Result<Command> {
        for (file, table) in &self.0 {
            command = apply(command, table, file, "")?;
        }
        Ok(command)
    }

    /// The same for one command of its own: what stands at the top, then in its table.
    ///
    /// # Errors
    /// As [`Files::apply`], but keys of other commands are passed over.
    pub fn apply_to(&self, name: &str, mut command: Command) -> anyhow::Result<Command> {
        for (file, table) in &self.0 {
            let own = table.get(name).and_then(Value::as_table);
            for (key, value) in table.iter().chain(own.into_iter().flatten()) {
                if !value.is_table() && flag(&command, key).is_some() {
                    command = with_default(command, key, value, file)?;
                }
            }
            if let Some((key, _)) = own
                .into_iter()
                .flatten()
                .find(|(key, value)| !value.is_table() && flag(&command, key).is_none())
            {
                return Err(unknown(&command, key, file, name).into());
            }
        }
        Ok(command)
    }
}

/// What `--config` names, before a command that is to be run.
fn config(mut arguments: impl Iterator<Item = OsString>) -> Option<PathBuf> {
    while let Some(argument) = arguments.next() {
        let text = argument.to_str().unwrap_or_default();
        if text == "--" {
            return None;
        }
        if text == "--config" {
            return arguments.next().map(Into::into);
        }
        if let Some(file) = text.strip_prefix("--config=") {
            return Some(file.into());
        }
    }
    None
}

fn apply(
    mut command: Command,
    table: &Table,
    file: &Path,
    inside: &str,
) -> anyhow::Result<Command> {
    for (key, value) in table {
        match value {
            Value::Table(of_command) if command.find_subcommand(key).is_some() => {
                let inside = format!("{inside}{key}.");
                let sub = command.find_subcommand(key).cloned();
                let sub = sub.map(|sub| apply(sub, of_command, file, &inside));
                if let Some(sub) = sub.transpose()? {
                    command = command.mut_subcommand(key, |_| sub);
                }
            }
            _ => {
                let (changed, found) = everywhere(command, key, value, file)?;
                if !found {
                    return Err(unknown(&changed, key, file, inside).into());
                }
                command = changed;
            }
        }
    }
    Ok(command)
}

/// Sets a flag in a command and in all commands under it that take such a value (some take one GPU,
/// some many); says whether any has it.
fn everywhere(
    mut command: Command,
    key: &str,
    value: &Value,
    file: &Path,
) -> anyhow::Result<(Command, bool)> {
    let mut found = false;
    let mut refused = None;
    if flag(&command, key).is_some() {
        match with_default(command.clone(), key, value, file) {
            Ok(changed) => (command, found) = (changed, true),
            Err(error) => refused = Some(error),
        }
    }
    let names: Vec<String> = command
        .get_subcommands()
        .map(|sub| sub.get_name().to_owned())
        .collect();
    for name in names {
        let Some(sub) = command.find_subcommand(&name).cloned() else {
            continue;
        };
        match everywhere(sub, key, value, file) {
            Ok((sub, true)) => {
                command = command.mut_subcommand(name, |_| sub);
                found = true;
            }
            Ok((_, false)) => {}
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    match refused {
        Some(error) if !found => Err(error),
        _ => Ok((command, found)),
    }
}

fn flag<'a>(command: &'a Command, key: &str) -> Option<&'a Arg> {
    let long = key.replace('_', "-");
    command
        .get_arguments()
        .find(|argument| argument.get_long() == Some(&long))
}

fn with_default(
    command: Command,
    key: &str,
    value: &Value,
    file: &Path,
) -> anyhow::Result<Command> {
    let Some(argument) = flag(&command, key).cloned() else {
        return Ok(command);
    };
    let texts = texts(value, file, key)?;
    let switch = matches!(argument.get_action(), ArgAction::SetTrue);
    let long = key.replace('_', "-");
    // Tried alone, so that the file is named where it is wrong.
    if switch {
        if !value.is_bool() {
            return Err(Problem::new(format!(
                "{}: {key} is {value}: expected true or false",
                file.display()
            ))
            .into());
        }
    } else {
        let trial = command.clone().no_binary_name(true);
        let trial = trial.mut_args(|argument| argument.required(false));
        let given = texts.iter().map(|text| format!("--{long}={text}"));
        let repeats = matches!(argument.get_action(), ArgAction::Append);
        let tried = if repeats || texts.len() == 1 {
            trial.try_get_matches_from(given).err()
        } else {
            return Err(Problem::new(format!(
                "{}: {key} takes one value, and {} are given",
                file.display(),
                texts.len()
            ))
            .into());
        };
        // What else the command needs is not there.
        let wrong = tried.filter(|error| {
            matches!(
                error.kind(),
                ErrorKind::InvalidValue
                    | ErrorKind::ValueValidation
                    | ErrorKind::TooManyValues
                    | ErrorKind::TooFewValues
                    | ErrorKind::WrongNumberOfValues
            )
        });
        if let Some(error) = wrong {
            let said = error.to_string();
            let line = said.lines().next().unwrap_or_default();
            let what = line.trim_start_matches("error: ").to_owned();
            return Err(Problem::new(format!("{}: {key}: {what}", file.display()))
                .hint(format!("`gpuwise help` says what --{long} takes"))
                .into());
        }
    }
    let id = argument.get_id().to_string();
    let others = EXCLUSIVE
        .iter()
        .filter(|group| group.contains(&id.as_str()));
    let others: Vec<&str> = others
        .flat_map(|group| group.iter().copied().filter(|other| *other != id))
        .filter(|other| flag(&command, other).is_some())
        .collect();
    Ok(command.mut_arg(id, |argument| {
        let given = |other: &&'static str| (*other, ArgPredicate::IsPresent, None::<&str>);
        argument
            .default_value_ifs(others.iter().map(given))
            .default_values(texts)
    }))
}

fn texts(value: &Value, file: &Path, key: &str) -> anyhow::Result<Vec<String>> {
    let one = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Boolean(yes) => Some(yes.to_string()),
        Value::Datetime(at) => Some(at.to_string()),
        Value::Array(_) | Value::Table(_) => None,
    };
    let all = match value {
        Value::Array(values) => values.iter().map(one).collect(),
        value => one(value).map(|text| vec![text]),
    };
    all.ok_or_else(|| {
        Problem::new(format!(
            "{}: {key}: expected a text, a number, true, false or a list of these",
            file.display()
        ))
        .into()
    })
}

fn unknown(command: &Command, key: &str, file: &Path, inside: &str) -> Problem {
    let inside = inside.trim_end_matches('.');
    let place = if inside.is_empty() {
        String::new()
    } else {
        format!("[{inside}] ")
    };
    let mut known: Vec<String> = Vec::new();
    let mut open = vec![command];
    while let Some(next) = open.pop() {
        known.extend(
            next.get_arguments()
                .filter_map(|a| a.get_long())
                .map(Into::into),
        );
        open.extend(next.get_subcommands());
    }
    known.sort();
    known.dedup();
    let wanted = key.replace('_', "-");
    let like: Vec<String> = known
        .into_iter()
        .filter(|flag| flag.contains(&wanted) || wanted.contains(flag.as_str()))
        .take(3)
        .collect();
    Problem::new(format!(
        "{}: {place}{key}: no command has a flag --{wanted}",
        file.display()
    ))
    .did_you_mean(&like)
    .hint("keys are long names of flags, tables names of commands")
}
