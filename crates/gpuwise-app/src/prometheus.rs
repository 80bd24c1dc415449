//! A Prometheus server as the command line names it.

use crate::error::Problem;
use clap::Args;
use gpuwise_probe::prometheus::{Authentication, Client, PrometheusError, Settings};
use gpuwise_units::Nanoseconds;
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// Which server, and how it lets us in.
#[derive(Debug, Clone, Args)]
pub struct ServerFlags {
    /// Address of a Prometheus server (or Thanos, Mimir, VictoriaMetrics), such as http://prometheus:9090
    #[arg(
        long,
        value_name = "URL",
        env = "GPUWISE_PROMETHEUS",
        hide_env_values = true
    )]
    pub prometheus: Option<String>,
    /// File that holds a bearer token
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Environment variable that holds a bearer token
    #[arg(long, value_name = "NAME", conflicts_with = "token_file")]
    token_env: Option<String>,
    /// File that holds `user:password`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["token_file", "token_env"])]
    user_file: Option<PathBuf>,
    /// A header of each request, such as 'X-Scope-OrgID: team'
    #[arg(long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// Certificates (PEM) to trust instead of the public ones
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// How long one query may take
    #[arg(long, value_name = "TIME", default_value = "2min")]
    timeout: String,
}

impl ServerFlags {
    /// A client of the server at this address.
    ///
    /// # Errors
    /// When the network must not be used, or a key, a certificate or a time cannot be read.
    pub fn client(&self, address: &str, offline: bool) -> anyhow::Result<Client> {
        if offline {
            return Err(Problem::new("--offline: no server is asked").into());
        }
        let timeout: Nanoseconds = self
            .timeout
            .parse()
            .map_err(|error| Problem::new("--timeout").because(anyhow::Error::new(error)))?;
        let mut settings = Settings::new(address);
        settings.timeout = Duration::from_nanos(timeout.0);
        settings.authentication = self.authentication()?;
        for header in &self.headers {
            let (name, value) = header.split_once(':').ok_or_else(|| {
                Problem::new(format!(
                    "--header {header:?} is not of the form 'name: value'"
                ))
            })?;
            settings
                .headers
                .push((name.trim().into(), value.trim().into()));
        }
        if let Some(path) = &self.ca_file {
            let bytes = fs::read(path).map_err(|error| {
                Problem::new(format!("--ca-file: cannot read {}", path.display())).because(error)
            })?;
            settings.authorities = Some(bytes);
        }
        Client::new(settings).map_err(|error| problem(&error).into())
    }

    fn authentication(&self) -> anyhow::Result<Authentication> {
        if let Some(name) = &self.token_env {
            let token = std::env::var(name).map_err(|_| {
                Problem::new(format!("--token-env: {name} is not set, or is no text"))
            })?;
            return Ok(Authentication::Bearer(token.trim().into()));
        }
        if let Some(path) = &self.token_file {
            return Ok(Authentication::Bearer(secret("--token-file", path)?));
        }
        if let Some(path) = &self.user_file {
            let text = secret("--user-file", path)?;
            let (user, password) = text.split_once(':').ok_or_else(|| {
                Problem::new(format!(
                    "--user-file: {} does not hold `user:password`",
                    path.display()
                ))
            })?;
            return Ok(Authentication::Basic {
                user: user.into(),
                password: password.into(),
            });
        }
        Ok(Authentication::None)
    }
}

fn secret(flag: &str, path: &Path) -> anyhow::Result<String> {
    let text = fs::read_to_string(path).map_err(|error| {
        Problem::new(format!("{flag}: cannot read {}", path.display())).because(error)
    })?;
    Ok(text.trim().into())
}

/// What a server said, with what one can do about it.
pub fn problem(error: &PrometheusError) -> Problem {
    let problem = Problem::new(error.to_string());
    match error.hint() {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
}

/// The one value of a query; all of several series together.
///
/// # Errors
/// When the server cannot be asked, or there is no series.
#[cfg(feature = "serve")]
pub fn value(client: &Client, query: &str) -> Result<f64, String> {
    let (mut sum, mut count) = (0.0, 0_u64);
    let answered = client.instant(query, None, |series| {
        if let Some(value) = series.value() {
            sum += value;
            count += 1;
        }
    });
    match answered {
        Ok(_) if count == 0 => Err(format!("the query gives no series: {query}")),
        Ok(_) => Ok(sum),
        Err(error) => Err(problem(&error).to_string()),
    }
}
