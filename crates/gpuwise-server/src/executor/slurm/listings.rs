//! What Slurm lists: by its REST service where that serves it, else by its commands.

use super::{
    SlurmSettings,
    commands::{Refused, run},
    jobs::{SlurmJob, SlurmNode, jobs, nodes},
    rest::{Of, Rest},
};
use std::io;

#[derive(Debug)]
pub(super) struct Listings(Option<Rest>);

impl Listings {
    /// # Errors
    /// When the system has nothing to ask with.
    pub(super) fn new(settings: &SlurmSettings) -> io::Result<Self> {
        let rest = settings.rest.clone();
        let rest = rest.map(|address| Rest::new(address, settings.token.clone()));
        rest.transpose().map(Self)
    }

    /// Jobs of this user whose comment begins with `ours`.
    pub(super) fn jobs(&mut self, ours: &str) -> Result<Vec<SlurmJob>, Refused> {
        let user = rustix::process::geteuid().as_raw();
        let rest = self.0.as_mut();
        if let Some(found) =
            rest.and_then(|rest| rest.listing(Of::Jobs, |text| jobs(text, ours, user)))
        {
            return Ok(found);
        }
        let words = ["--json", "--states=all"].map(String::from);
        run("squeue", &words, "").and_then(|text| jobs(&text, ours, user).map_err(Refused::No))
    }

    pub(super) fn nodes(&mut self) -> Result<Vec<SlurmNode>, Refused> {
        let listed = |text: &str| nodes(text)?.ok_or_else(|| "it lists no nodes".to_owned());
        let rest = self.0.as_mut();
        if let Some(found) = rest.and_then(|rest| rest.listing(Of::Nodes, listed)) {
            return Ok(found);
        }
        if let Some(found) = nodes(&run("sinfo", &["--json".into()], "")?).map_err(Refused::No)? {
            return Ok(found);
        }
        // Grouped since 23.02: another command lists nodes there.
        let words = ["show", "nodes", "--json"].map(String::from);
        listed(&run("scontrol", &words, "")?).map_err(Refused::No)
    }
}
