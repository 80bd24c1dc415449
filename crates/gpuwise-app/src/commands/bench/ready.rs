//! The server that is measured, and waiting for it.

use crate::{
    error::Problem,
    progress,
    settings::{Bench, InterfaceName, ServerFlags},
    simulation::time,
};
use gpuwise_probe::bench::{
    self, Failure, Interface, Options, PrepareError, Prepared, Secret, Stop, Target, Trust,
};
use std::{
    env, fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// Between two tries whether a server is there.
const BETWEEN_TRIES: Duration = Duration::from_millis(500);
/// How long a server is waited for that listens and is not ready, where nobody says it.
const USUAL_WAIT: Duration = Duration::from_secs(20);

/// Asks the server until it is ready, for as long as was said.
pub(super) fn ready(
    options: &Options,
    flags: &ServerFlags,
    stop: &Stop,
) -> anyhow::Result<Prepared> {
    let until = Instant::now() + wait(flags)?;
    loop {
        let error = match bench::prepare(options.clone()) {
            Ok(prepared) => return Ok(prepared),
            Err(error) => error,
        };
        let may_come = matches!(
            &error,
            PrepareError::Server { failure, .. } if may_come(failure, flags.wait.is_some())
        );
        if !may_come || Instant::now() >= until || stop.is_set() {
            return Err(unready(error));
        }
        progress::doing(&format!("waiting for {}", options.target.shown()));
        thread::sleep(BETWEEN_TRIES);
    }
}

/// Whether a server that failed so may be ready later.
fn may_come(failure: &Failure, asked_to_wait: bool) -> bool {
    match failure {
        // Where nobody listens nobody may ever: only who says so waits for it.
        Failure::Refused => asked_to_wait,
        Failure::Busy { .. } | Failure::Closed(_) => true,
        _ => false,
    }
}

fn unready(error: PrepareError) -> anyhow::Error {
    progress::doing("");
    let hint = match &error {
        PrepareError::Server { failure, .. } => match failure {
            Failure::Refused => {
                Some("is it running, and is this its port? --wait 5min waits for it to start")
            }
            Failure::Key { .. } => Some("give its key by --key-env NAME or --key-file FILE"),
            Failure::Certificate(_) => {
                Some("trust its authority with --ca-file FILE, or any certificate with --insecure")
            }
            Failure::Tls(_) | Failure::Closed(_) => {
                Some("does it speak https or http? Write the one that it speaks")
            }
            Failure::Redirect { .. } => {
                Some("give the address that it redirects to, if that is the server you mean")
            }
            Failure::TimedOut(_) => {
                Some("it accepts connections and does not answer; --wait 5min waits longer")
            }
            Failure::Status { code: 404, .. } => {
                Some("give the address up to /v1, such as http://localhost:8000/v1")
            }
            _ => None,
        },
        PrepareError::NoModel { .. } => Some("name it: --model NAME"),
        _ => None,
    };
    let problem = Problem::new("the server cannot be measured").because(error);
    match hint {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
    .into()
}

/// What is asked of the server, by flags.
pub(super) fn options(
    flags: &Bench,
    target: Target,
    prompt_seed: u64,
    longest_input: u32,
) -> anyhow::Result<Options> {
    let server = &flags.server;
    let read = |path: &Path, what: &str| {
        fs::read(path).map_err(|error| {
            Problem::new(format!("cannot read {what} {}", path.display())).because(error)
        })
    };
    let authorities = server
        .ca_file
        .as_deref()
        .map(|path| read(path, "certificates"))
        .transpose()?;
    let extra = match &server.body {
        None => serde_json::Map::new(),
        Some(text) => serde_json::from_str(text).map_err(|error| {
            Problem::new(format!("--body: {error}"))
                .hint("write a JSON object, such as '{\"temperature\":0}'")
        })?,
    };
    Ok(Options {
        target,
        interface: server.interface.map(|name| match name {
            InterfaceName::Chat => Interface::Chat,
            InterfaceName::Completions => Interface::Completions,
        }),
        model: server.model.clone(),
        key: key(server)?,
        trust: Trust {
            authorities,
            any: server.insecure,
        },
        stream: !server.no_stream,
        timeout: duration("--timeout", &server.timeout)?,
        patience: wait(server)?.max(Duration::from_secs(1)),
        retry_after: server.retry_after,
        extra,
        prompt_seed,
        longest_input,
    })
}

/// The key, which stands in an environment variable or a file so that no list of processes shows it.
fn key(flags: &ServerFlags) -> anyhow::Result<Option<Secret>> {
    let text = match (&flags.key_env, &flags.key_file) {
        (Some(name), _) => env::var(name).map_err(|error| {
            Problem::new(format!("--key-env {name}: {error}")).hint(format!(
                "export {name}, or name the variable that holds the key"
            ))
        })?,
        (None, Some(path)) => fs::read_to_string(path).map_err(|error| {
            Problem::new(format!("cannot read key file {}", path.display())).because(error)
        })?,
        (None, None) => return Ok(None),
    };
    if text.trim().is_empty() {
        return Err(Problem::new("the key is empty").into());
    }
    Ok(Some(Secret::new(&text)?))
}

fn wait(flags: &ServerFlags) -> anyhow::Result<Duration> {
    match &flags.wait {
        Some(text) => duration("--wait", text),
        None => Ok(USUAL_WAIT),
    }
}

fn duration(flag: &str, text: &str) -> anyhow::Result<Duration> {
    Ok(Duration::from_nanos(time(flag, text)?.0))
}

#[cfg(test)]
mod tests {
    use super::may_come;
    use gpuwise_probe::bench::Failure;

    #[test]
    fn a_refused_connection_is_waited_for_where_that_was_asked() {
        let busy = Failure::Busy {
            code: 503,
            message: "loading".into(),
            retry_after: None,
        };
        assert!(!may_come(&Failure::Refused, false));
        assert!(may_come(&Failure::Refused, true));
        assert!(may_come(&busy, false));
        assert!(!may_come(&Failure::CutOff, true));
    }
}
