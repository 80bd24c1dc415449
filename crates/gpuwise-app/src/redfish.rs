//! A Redfish service as the command line names it.

use crate::{authorities::authorities, error::Problem, settings::RedfishFlags};
use gpuwise_server::redfish::{Client, Credentials, Secret, Settings, Trouble};
use std::{fs, time::Duration};

impl RedfishFlags {
    /// Settings of the service at this address, which `flag` named.
    ///
    /// # Errors
    /// When it is no address, or credentials or certificates cannot be read.
    pub(crate) fn settings(&self, flag: &str, url: &str) -> anyhow::Result<Settings> {
        let no_address =
            || Problem::new(format!("{flag} {url:?} is no address of a Redfish service"));
        let such = "such as https://fabric.example:8443";
        let scheme = url.split_once("://");
        let (scheme, rest) = scheme
            .filter(|(scheme, rest)| matches!(*scheme, "http" | "https") && !rest.is_empty())
            .ok_or_else(|| no_address().hint(such))?;
        if rest
            .split('/')
            .next()
            .is_some_and(|host| host.contains('@'))
        {
            return Err(
                Problem::new(format!("{flag}: an address holds no user and password"))
                    .hint("write user:password into a file and name it by --redfish-user-file")
                    .into(),
            );
        }
        let credentials = self.credentials()?;
        let here = crate::commands::broker::is_this_machine(url);
        if scheme == "http" && credentials != Credentials::None && !here {
            return Err(Problem::new(format!(
                "{flag}: a password would go over the network in plain text"
            ))
            .hint("use https://")
            .into());
        }
        let mut settings = Settings::new(url);
        settings.credentials = credentials;
        settings.timeout = Duration::from_nanos(self.redfish_timeout.0);
        if settings.timeout.is_zero() {
            return Err(Problem::new("--redfish-timeout: expected more than 0").into());
        }
        settings.patience = settings.patience.max(settings.timeout * 2);
        if let Some(path) = &self.redfish_ca_file {
            settings.authorities = Some(authorities("--redfish-ca-file", path)?);
        }
        Ok(settings)
    }

    /// A client of the service at this address.
    pub(crate) fn client(&self, flag: &str, url: &str) -> anyhow::Result<Client> {
        Ok(Client::new(self.settings(flag, url)?))
    }

    fn credentials(&self) -> anyhow::Result<Credentials> {
        let (what, text) = if let Some(path) = &self.redfish_user_file {
            let text = fs::read_to_string(path).map_err(|error| {
                let what = format!("--redfish-user-file: cannot read {}", path.display());
                Problem::new(what).because(error)
            })?;
            (path.display().to_string(), text)
        } else if let Some(name) = &self.redfish_user_env {
            let text = std::env::var(name).map_err(|_| {
                let what = format!("--redfish-user-env: {name} is not set, or is no text");
                Problem::new(what)
            })?;
            (name.clone(), text)
        } else if self.redfish_session {
            return Err(Problem::new("--redfish-session: nobody says who logs in")
                .hint("--redfish-user-file names a file that holds user:password")
                .into());
        } else {
            return Ok(Credentials::None);
        };
        let parts = text.trim().split_once(':');
        let (user, password) =
            parts.ok_or_else(|| Problem::new(format!("{what} does not hold `user:password`")))?;
        let (user, password) = (user.to_owned(), Secret(password.to_owned()));
        Ok(if self.redfish_session {
            Credentials::Session(user, password)
        } else {
            Credentials::Basic(user, password)
        })
    }
}

/// What a service said, with what one can do about it.
pub(crate) fn problem(trouble: &Trouble) -> Problem {
    let problem = Problem::new(trouble.to_string());
    match trouble {
        Trouble::Denied(_) => problem.hint("--redfish-user-file names a file that holds user:password"),
        Trouble::Unreachable(_) | Trouble::Late(_) => {
            problem.hint("see that the address is right and the service runs; --redfish-ca-file names its authority")
        }
        Trouble::NoComposition => {
            problem.hint("name the service that composes systems: its root links CompositionService, enabled")
        }
        Trouble::Missing(_) | Trouble::Conflict(_) | Trouble::Refused { .. } | Trouble::Garbled { .. } => problem,
    }
}
