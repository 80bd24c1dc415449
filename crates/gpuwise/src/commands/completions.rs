//! `gpuwise completions`, `man`, `schema` and `example`: what shells, `man`, editors and beginners read.

use crate::{
    cli::{Cli, Completions, Example, Man, Schema},
    output,
};
use clap::CommandFactory as _;
use gpuwise_app::{Context, Exit, Format, error::Problem, examples, schemas};

pub(crate) fn completions(flags: &Completions) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(flags.shell, &mut Cli::command(), "gpuwise", &mut script);
    output::data(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Yes)
}

pub(crate) fn schema(flags: &Schema) -> anyhow::Result<Exit> {
    match &flags.name {
        Some(name) => output::data(schemas::schema(name)?)?,
        None => output::data(&(schemas::names().collect::<Vec<_>>().join("\n") + "\n"))?,
    }
    Ok(Exit::Yes)
}

pub(crate) fn example(context: &Context, flags: &Example) -> anyhow::Result<Exit> {
    if let Some(name) = &flags.name {
        output::data(examples::named(name)?.text)?;
        return Ok(Exit::Yes);
    }
    if matches!(context.form.format, Format::Json | Format::Csv | Format::Md) {
        return Err(Problem::new("the list of examples is text")
            .hint("leave --format out")
            .into());
    }
    let width = examples::all().map(|one| one.name.len()).max();
    let width = width.unwrap_or_default();
    for one in examples::all() {
        output::data(&format!("{:width$}  {}\n", one.name, one.read_by))?;
    }
    Ok(Exit::Yes)
}

pub(crate) fn man(flags: &Man) -> anyhow::Result<Exit> {
    let mut command = Cli::command();
    command.build();
    let command = match &flags.name {
        None => command,
        Some(name) => {
            let names: Vec<String> = command
                .get_subcommands()
                .map(|known| known.get_name().to_owned())
                .collect();
            command.find_subcommand(name).cloned().ok_or_else(|| {
                Problem::new(format!("there is no command {name:?}"))
                    .hint(format!("commands are {}", names.join(", ")))
            })?
        }
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    output::data(&String::from_utf8_lossy(&page))?;
    Ok(Exit::Yes)
}
