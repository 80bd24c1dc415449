//! Slurm's REST service (slurmrestd): what is asked at every look, without a process for each.
//!
//! It lists jobs and nodes in the form of `squeue --json` and `sinfo --json`, whoever asks. What is done (submit,
//! cancel, update) stays with the commands: on a Unix socket it would be done as the service's user, and not as the
//! broker's, and v0.0.38 has no GPUs of each node.

use super::{
    address::RestAddress,
    commands::eprintln_line,
    token::{Token, TokenFrom},
};
use axum::body::{Body, to_bytes};
use hyper::{Request, StatusCode, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::{
    fmt, io,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
    runtime::{Builder, Runtime},
    time::timeout,
};

/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(10);

/// How long commands are asked where it did not answer as it should.
const AGAIN: Duration = Duration::from_secs(30);

/// Bytes of an answer at most: some kilobytes for each job.
const MOST: usize = 1 << 30;

/// Versions of its API whose listings are read: v0.0.38 to v0.0.40.
const VERSIONS: std::ops::RangeInclusive<u32> = 38..=40;

/// What it serves.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Serves {
    version: u32,
    jobs: String,
    nodes: String,
}

/// What is asked of it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Of {
    Jobs,
    Nodes,
}

#[derive(Debug)]
pub(super) struct Rest {
    address: RestAddress,
    token: Option<TokenFrom>,
    /// The token with which nobody was let in; an empty one: there was none to be read.
    refused: Option<String>,
    runtime: Runtime,
    serves: Option<Serves>,
    /// What was said last: the version, or why commands are asked.
    said: Option<String>,
    /// Until when commands are asked.
    off: Option<Instant>,
}

impl Rest {
    /// # Errors
    /// When the system has nothing to wait with.
    pub(super) fn new(address: RestAddress, token: Option<TokenFrom>) -> io::Result<Self> {
        Ok(Self {
            address,
            token,
            refused: None,
            runtime: Builder::new_current_thread().enable_all().build()?,
            serves: None,
            said: None,
            off: None,
        })
    }

    /// A listing as it is read; `None`: commands are to be asked.
    pub(super) fn listing<T>(
        &mut self,
        of: Of,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let off = self.off.is_some_and(|until| Instant::now() < until);
        if off && !self.is_renewed() {
            return None;
        }
        match self.asked(of, read) {
            Ok((found, version)) => {
                (self.off, self.refused) = (None, None);
                self.says(format!(
                    "slurmrestd v0.0.{version} at {} lists jobs and nodes; jobs are submitted and ended by commands",
                    self.address
                ));
                Some(found)
            }
            Err(why) => {
                self.off = Some(Instant::now() + AGAIN);
                // Another release may answer next.
                self.serves = None;
                self.says(format!(
                    "slurmrestd at {} {why}: Slurm's commands are asked in its place",
                    self.address
                ));
                None
            }
        }
    }

    fn asked<T>(
        &mut self,
        of: Of,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<(T, u32), String> {
        let serves = match self.serves.clone() {
            Some(serves) => serves,
            None => serves(&self.get("/openapi/v3")?)?,
        };
        let path = match of {
            Of::Jobs => &serves.jobs,
            Of::Nodes => &serves.nodes,
        };
        let found = read(&self.get(path)?).map_err(|why| format!("answers {path} so: {why}"))?;
        let version = serves.version;
        self.serves = Some(serves);
        Ok((found, version))
    }

    /// Whether there is another token than the one that was refused.
    fn is_renewed(&self) -> bool {
        let (Some(from), Some(refused)) = (&self.token, &self.refused) else {
            return false;
        };
        from.token().is_ok_and(|token| token.text != *refused)
    }

    fn get(&mut self, path: &str) -> Result<String, String> {
        let mut request = Request::get(path)
            .header("host", "slurmrestd")
            .header("accept", "application/json")
            .header("connection", "close");
        let token = self.token.as_ref().map(TokenFrom::token).transpose();
        let token = token.map_err(|why| {
            self.refused = Some(String::new());
            format!("is not asked, as {why}")
        })?;
        if let Some(token) = &token {
            request = request.header("x-slurm-user-token", &token.text);
            if let Some(user) = &token.user {
                request = request.header("x-slurm-user-name", user);
            }
        }
        let request = request.body(Body::empty());
        let request = request.map_err(|error| format!("cannot be asked: {error}"))?;
        let answer = async {
            match &self.address {
                RestAddress::Unix(path) => over(UnixStream::connect(path).await, request).await,
                RestAddress::Http(host) => over(TcpStream::connect(host).await, request).await,
            }
        };
        let answer = self
            .runtime
            .block_on(async { timeout(LIMIT, answer).await });
        let late = || format!("did not answer within {} s", LIMIT.as_secs());
        let (status, text) = answer.map_err(|_| late())??;
        match status {
            StatusCode::OK => Ok(text),
            status => Err(self.refusal(token, path, status)),
        }
    }

    /// Why it does not answer, as far as the token says it: to one that has expired slurmrestd 22.05 answers 500 and
    /// "Unspecified error".
    fn refusal(&mut self, token: Option<Token>, path: &str, status: StatusCode) -> String {
        let locked = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        let (Some(token), Some(from)) = (token, &self.token) else {
            return match &self.address {
                _ if !locked => format!("answers {path} with {status}"),
                RestAddress::Unix(_) => format!(
                    "lets in root and its own user alone ({status}): it is to run as the broker's user, or to be asked over http:// with a token"
                ),
                RestAddress::Http(_) => format!(
                    "lets nobody in without a token ({status}): SLURM_JWT or --slurm-token-file gives one of `scontrol token`"
                ),
            };
        };
        let renewed = from.renewed();
        let user = token.user.as_deref().unwrap_or("the broker");
        let now = jiff::Timestamp::now().as_second();
        let why = match token.expired(now) {
            Some(at) => format!("lets {user} in no more, whose token expired at {at}"),
            None if locked => format!("does not let {user} in with this token ({status})"),
            None => format!(
                "answers {path} of {user} with {status}, maybe as it does not believe the token"
            ),
        };
        self.refused = Some(token.text);
        format!("{why} ({renewed})")
    }

    /// Says it once.
    fn says(&mut self, what: String) {
        if self.said.as_ref() != Some(&what) {
            eprintln_line(&what);
            self.said = Some(what);
        }
    }
}

/// One request over a connection of its own.
async fn over<S>(
    stream: io::Result<S>,
    request: Request<Body>,
) -> Result<(StatusCode, String), String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let silent = |error: &dyn fmt::Display| format!("does not answer ({error})");
    let stream = stream.map_err(|error| silent(&error))?;
    let shaken = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = shaken.map_err(|error| silent(&error))?;
    // It ends with the answer.
    let carried = tokio::spawn(connection);
    let answer = sender
        .send_request(request)
        .await
        .map_err(|error| silent(&error))?;
    let status = answer.status();
    let body = to_bytes(Body::new(answer.into_body()), MOST).await;
    carried.abort();
    let body = body.map_err(|error| silent(&error))?;
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

/// The newest version of those that are read by which it lists jobs and nodes.
fn serves(openapi: &str) -> Result<Serves, String> {
    let document: Value = serde_json::from_str(openapi)
        .map_err(|error| format!("says what it serves as no JSON ({error})"))?;
    let paths = document["paths"].as_object();
    let paths = paths.ok_or("does not say what it serves")?;
    let find = |version: u32, what: &str| {
        // Some releases end paths with a slash.
        [
            format!("/slurm/v0.0.{version}/{what}"),
            format!("/slurm/v0.0.{version}/{what}/"),
        ]
        .into_iter()
        .find(|path| paths.contains_key(path))
    };
    let found = VERSIONS.rev().find_map(|version| {
        Some(Serves {
            version,
            jobs: find(version, "jobs")?,
            nodes: find(version, "nodes")?,
        })
    });
    found.ok_or_else(|| {
        let (first, last) = (VERSIONS.start(), VERSIONS.end());
        format!("lists jobs and nodes in no version from v0.0.{first} to v0.0.{last}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_that_lists_both_is_taken() {
        let openapi = |paths: &[&str]| {
            let paths: Vec<String> = paths.iter().map(|path| format!("{path:?}: {{}}")).collect();
            serves(&format!("{{\"paths\": {{{}}}}}", paths.join(", ")))
        };
        let both = openapi(&[
            "/slurm/v0.0.38/jobs",
            "/slurm/v0.0.38/nodes",
            "/slurm/v0.0.39/jobs/",
            "/slurm/v0.0.39/nodes/",
            "/slurm/v0.0.40/jobs/",
            "/slurm/v0.0.99/jobs/",
            "/slurm/v0.0.99/nodes/",
        ]);
        assert_eq!(
            both.map(|one| (one.version, one.jobs)),
            Ok((39, "/slurm/v0.0.39/jobs/".into()))
        );
        assert!(openapi(&["/slurm/v0.0.36/jobs", "/slurm/v0.0.36/nodes"]).is_err());
        assert!(serves("nothing").is_err());
    }

    #[test]
    fn who_does_not_answer_is_asked_again_later() {
        let folder = tempfile::tempdir().expect("a folder");
        let nobody = RestAddress::Unix(folder.path().join("none.sock"));
        let mut rest = Rest::new(nobody, None).expect("begins");
        assert_eq!(rest.listing(Of::Jobs, |_| Ok(())), None);
        assert!(rest.off.is_some() && rest.said.is_some_and(|said| said.contains("commands")));
    }
}
