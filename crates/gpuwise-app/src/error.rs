//! Errors as people read them: what went wrong, where, and what to do.

use std::{error::Error, fmt, io, string::FromUtf8Error};

/// An error with advice. What stands in its `what` is a clause that says what was read, where, and
/// what is wrong; its hints say what to do.
#[derive(Debug)]
pub struct Problem {
    what: String,
    hints: Vec<String>,
    source: Option<anyhow::Error>,
}

impl Problem {
    pub fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            hints: Vec::new(),
            source: None,
        }
    }

    /// With what one can do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// With names like the one that was not found.
    #[must_use]
    pub fn did_you_mean(self, like: &[String]) -> Self {
        match like {
            [] => self,
            like => self.hint(format!("did you mean {}?", like.join(", "))),
        }
    }

    /// A cluster cannot be spoken to.
    #[cfg(feature = "kubernetes")]
    pub fn of_cluster(error: &gpuwise_k8s::watch::ConnectError) -> Self {
        let problem = Self::new(error.problem.clone());
        let problem = error.hint.iter().fold(problem, Self::hint);
        let Some(why) = std::error::Error::source(error) else {
            return problem;
        };
        let told = why.downcast_ref::<io::Error>().and_then(system);
        problem.because(anyhow::Error::msg(told.unwrap_or_else(|| why.to_string())))
    }

    #[must_use]
    pub fn because(mut self, source: impl Into<anyhow::Error>) -> Self {
        self.source = Some(plain(source.into()));
        self
    }
}

/// What the system says, without its numbers and names of temporary files.
fn plain(error: anyhow::Error) -> anyhow::Error {
    let told = if let Some(error) = error.downcast_ref::<io::Error>() {
        system(error)
    } else {
        let text = error.downcast_ref::<FromUtf8Error>();
        text.map(|error| {
            let at = error.utf8_error().valid_up_to() + 1;
            format!("byte {at} is of no character")
        })
    };
    told.map_or(error, anyhow::Error::msg)
}

fn system(error: &io::Error) -> Option<String> {
    Some(match error.kind() {
        io::ErrorKind::NotFound => "no such file or directory".into(),
        io::ErrorKind::IsADirectory => "it is a directory, not a file".into(),
        io::ErrorKind::NotADirectory => "a part of its path is a file, not a directory".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        io::ErrorKind::InvalidData if error.to_string().contains("valid UTF-8") => {
            "it is not text in UTF-8".into()
        }
        _ => return None,
    })
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl Error for Problem {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source
            .as_deref()
            .map(|source| source as &(dyn Error + 'static))
    }
}

/// The problems of a file where several are told, each on a line of its own.
pub fn problems(error: &anyhow::Error) -> Option<String> {
    let problems = error.downcast_ref::<gpuwise_read::fleet::FleetProblems>()?;
    Some(problems.to_string())
}

/// The hints of a chain of errors, outermost first.
pub fn hints(error: &anyhow::Error) -> Vec<&str> {
    let chain = || {
        error
            .chain()
            .filter_map(|cause| cause.downcast_ref::<Problem>())
    };
    // One that was put over another error is not found in the chain, but asked for.
    let own = error.downcast_ref::<Problem>();
    let own = own.filter(|own| chain().all(|problem| !std::ptr::eq(problem, *own)));
    own.into_iter()
        .chain(chain())
        .flat_map(|problem| problem.hints.iter().map(String::as_str))
        .collect()
}
