//! The native half of the Python package: any question, by the command line's own flags, answered in
//! any form. What is typed stands in `python/gpuwise`.

use clap::{Args as _, Command as Definition, FromArgMatches as _, Subcommand as _};
use gpuwise_app::{
    App, Context, Exit, Form, TextSink,
    commands::{Command, run},
    error::hints,
    settings::{FormatName, Global, file::Files},
};
use gpuwise_view::Style;
use pyo3::{create_exception, exceptions::PyException, prelude::*};
use std::sync::Arc;

create_exception!(
    _gpuwise,
    GpuwiseError,
    PyException,
    "What went wrong, and in `hints` what to do."
);

/// Columns of text where nobody says how many there are.
const WIDTH: usize = 100;

/// Asks a question as the command line does: a command with its flags and those of every command.
///
/// `settings` says whether files of the project and the user stand in for flags that are not given.
/// Gives whether the answer is yes, and its text.
#[pyfunction]
#[pyo3(signature = (arguments, *, settings=true))]
fn ask(py: Python<'_>, arguments: Vec<String>, settings: bool) -> PyResult<(bool, String)> {
    py.detach(|| answered(arguments, settings))
        .map_err(|failure| failed(py, &failure))
}

fn answered(arguments: Vec<String>, settings: bool) -> Result<(bool, String), Failure> {
    let definition = Definition::new("gpuwise")
        .no_binary_name(true)
        .subcommand_required(true);
    let definition = Command::augment_subcommands(Global::augment_args(definition));
    let files = if settings {
        Files::here()?
    } else {
        Files::default()
    };
    let matches = files.apply(definition)?.try_get_matches_from(arguments)?;
    let global = Global::from_arg_matches(&matches)?;
    let command = Command::from_arg_matches(&matches)?;
    let form = Form {
        format: global
            .format
            .map_or_else(|| command.usual_format(), FormatName::format),
        focus: global.format == Some(FormatName::Focus),
        html: global.format == Some(FormatName::Html),
        style: Style {
            width: WIDTH,
            colour: false,
        },
    };
    let app = App::from_environment(global.offline, global.seed);
    let kept = Arc::new(TextSink::default());
    let exit = run(&Context::new(app, form, kept.clone()), &command)?;
    Ok((exit == Exit::Yes, kept.text()))
}

/// An error in words.
struct Failure {
    what: String,
    hints: Vec<String>,
}

impl From<gpuwise_app::Error> for Failure {
    fn from(error: gpuwise_app::Error) -> Self {
        let chain: Vec<String> = error.chain().map(ToString::to_string).collect();
        Self {
            what: chain.join(": "),
            hints: hints(&error).into_iter().map(Into::into).collect(),
        }
    }
}

impl From<clap::Error> for Failure {
    fn from(error: clap::Error) -> Self {
        gpuwise_app::settings::refused(&error).into()
    }
}

fn failed(py: Python<'_>, failure: &Failure) -> PyErr {
    let error = GpuwiseError::new_err(failure.what.clone());
    match error.value(py).setattr("hints", failure.hints.clone()) {
        Ok(()) => error,
        Err(other) => other,
    }
}

/// The native half of gpuwise.
#[pymodule]
fn _gpuwise(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("GpuwiseError", module.py().get_type::<GpuwiseError>())?;
    module.add_function(wrap_pyfunction!(ask, module)?)
}
