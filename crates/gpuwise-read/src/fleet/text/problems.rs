//! Problems, gathered so that several are told at once.

use std::fmt;

/// One thing that is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetProblem {
    /// Line, from 1; 0: the file as a whole.
    pub line: usize,
    /// What is wrong, and what would be right.
    pub problem: String,
}

/// Everything that is wrong with a fleet file or a job file, in the order of its lines.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct FleetProblems {
    /// The file as the user knows it.
    pub file: String,
    /// The first of them, at most 20.
    pub problems: Vec<FleetProblem>,
    /// How many more there are.
    pub more: usize,
}

/// Problems that are told: who has more corrects these first.
const MOST: usize = 20;

impl fmt::Display for FleetProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, one) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            match one.line {
                0 => write!(f, "{}: {}", self.file, one.problem)?,
                line => write!(f, "{}: line {line}: {}", self.file, one.problem)?,
            }
        }
        if self.more > 0 {
            write!(f, "\n{}: and {} more", self.file, self.more)?;
        }
        Ok(())
    }
}

/// What is wrong with a value, to be told with its line.
pub(in crate::fleet) type Found<T> = Result<T, String>;

/// Problems while they are gathered.
pub(in crate::fleet) struct Problems {
    file: String,
    found: Vec<FleetProblem>,
    more: usize,
}

impl Problems {
    pub(in crate::fleet) fn new(file: &str) -> Self {
        Self {
            file: file.into(),
            found: Vec::new(),
            more: 0,
        }
    }

    pub(in crate::fleet) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    pub(in crate::fleet) fn add(&mut self, line: usize, problem: impl Into<String>) {
        if self.found.len() >= MOST {
            self.more += 1;
        } else {
            self.found.push(FleetProblem {
                line,
                problem: problem.into(),
            });
        }
    }

    /// The value, or `None` with its problem noted.
    pub(in crate::fleet) fn take<T>(&mut self, line: usize, found: Found<T>) -> Option<T> {
        found.map_err(|problem| self.add(line, problem)).ok()
    }

    /// Nothing where all is well.
    pub(in crate::fleet) fn finish(mut self) -> Result<(), FleetProblems> {
        if self.found.is_empty() {
            return Ok(());
        }
        self.found.sort_by_key(|one| one.line);
        Err(FleetProblems {
            file: self.file,
            problems: self.found,
            more: self.more,
        })
    }
}
