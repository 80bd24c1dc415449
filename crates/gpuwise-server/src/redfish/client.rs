//! Asking a Redfish service.

use super::{
    Credentials, Secret, Settings, Trouble,
    answer::Answer,
    documents::{Collection, Ref, Root, Task},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};
use ureq::{
    Agent,
    http::{Method, Request},
    tls::TlsConfig,
};

/// How often what only reads is tried, and how long is waited before the second time.
const TRIES: u32 = 4;
const FIRST_WAIT: Duration = Duration::from_millis(200);

/// Between two looks at a task.
const TASK_STEP: Duration = Duration::from_millis(500);

/// Members of a collection at most, so that one that never ends is noticed.
const MEMBERS: usize = 100_000;

/// A client of one service; copies share their session.
#[derive(Debug, Clone)]
pub struct Client {
    agent: Agent,
    pub(crate) settings: Settings,
    session: Arc<Mutex<Option<Session>>>,
}

#[derive(Debug, Clone)]
struct Session {
    token: Secret,
    /// Where it is ended.
    path: Option<String>,
}

impl Client {
    pub fn new(settings: Settings) -> Self {
        let mut tls = TlsConfig::builder();
        if let Some(authorities) = &settings.authorities {
            tls = tls.root_certs(authorities.clone());
        }
        let config = Agent::config_builder()
            .timeout_global(Some(settings.timeout))
            .timeout_connect(Some(Duration::from_secs(10).min(settings.timeout)))
            .tls_config(tls.build())
            .http_status_as_error(false)
            // Credentials go to the one service that was named.
            .max_redirects(0)
            .build();
        Self {
            agent: config.into(),
            settings,
            session: Arc::default(),
        }
    }

    pub(super) fn root(&self) -> Result<Root, Trouble> {
        self.get("/redfish/v1/")
    }

    /// A resource. What fails in passing is tried again.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Trouble> {
        let mut wait = FIRST_WAIT;
        for _ in 1..TRIES {
            match self.get_once(path) {
                Err(trouble) if trouble.passes() => {
                    thread::sleep(wait);
                    wait *= 2;
                }
                done => return done,
            }
        }
        self.get_once(path)
    }

    /// A resource, as it is now or not at all.
    pub(crate) fn get_once<T: DeserializeOwned>(&self, path: &str) -> Result<T, Trouble> {
        let answer = self.send(&Method::GET, path, None)?;
        serde_json::from_str(&answer.text).map_err(|error| Trouble::Garbled {
            path: path.to_owned(),
            why: error.to_string(),
        })
    }

    /// Paths of all members of a collection.
    pub(crate) fn members(&self, path: &str) -> Result<Vec<String>, Trouble> {
        let mut found = Vec::new();
        let mut next = Some(path.to_owned());
        while let Some(path) = next.take() {
            let page: Collection = self.get(&path)?;
            found.extend(page.members.into_iter().map(|one: Ref| one.path));
            next = page.next.filter(|_| found.len() < MEMBERS);
        }
        Ok(found)
    }

    /// Does something, and waits for its task where it becomes one.
    pub(crate) fn act(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
        until: Instant,
    ) -> Result<(), Trouble> {
        let answer = self.send(method, path, body)?;
        match (answer.status, answer.location) {
            (202, Some(task)) => self.task(&task, until),
            _ => Ok(()),
        }
    }

    fn task(&self, path: &str, until: Instant) -> Result<(), Trouble> {
        loop {
            let answer = match self.send(&Method::GET, path, None) {
                // One that is over may be forgotten: what came of it is seen elsewhere.
                Err(Trouble::Missing(_)) => return Ok(()),
                other => other?,
            };
            let task: Task = serde_json::from_str(&answer.text).unwrap_or_default();
            match task.task_state.as_deref() {
                Some("Completed") => return Ok(()),
                Some(state @ ("Exception" | "Killed" | "Cancelled" | "Interrupted")) => {
                    return Err(Trouble::Refused {
                        status: answer.status,
                        id: state.to_owned(),
                        said: format!("its task {path} ended so"),
                    });
                }
                // A monitor answers with the result once it is there.
                None if answer.status != 202 => return Ok(()),
                _ if Instant::now() >= until => {
                    return Err(Trouble::Late(format!("its task {path} is not over")));
                }
                _ => thread::sleep(TASK_STEP),
            }
        }
    }

    fn send(&self, method: &Method, path: &str, body: Option<&Value>) -> Result<Answer, Trouble> {
        let answer = self.send_once(method, path, body)?;
        let sessions = matches!(self.settings.credentials, Credentials::Session(..));
        if answer.status == 401 && sessions {
            // It was forgotten, or its time is over.
            *self.session.lock().unwrap_or_else(PoisonError::into_inner) = None;
            return self.send_once(method, path, body)?.checked(path);
        }
        answer.checked(path)
    }

    fn send_once(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, Trouble> {
        let token = match &self.settings.credentials {
            Credentials::Session(user, password) => Some(self.log_in(user, password)?),
            _ => None,
        };
        self.request(method, path, body, token.as_ref())
    }

    fn request(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
        token: Option<&Secret>,
    ) -> Result<Answer, Trouble> {
        let url = self.address(path)?;
        let mut request = Request::builder()
            .method(method)
            .uri(&url)
            .header("OData-Version", "4.0")
            .header("Accept", "application/json");
        if let Credentials::Basic(user, password) = &self.settings.credentials {
            request = request.header("Authorization", basic(user, password));
        }
        if let Some(token) = token {
            request = request.header("X-Auth-Token", &token.0);
        }
        let unsaid = |error: &dyn fmt::Display| Trouble::Unreachable(error.to_string());
        let sent = if let Some(body) = body {
            let request = request.header("Content-Type", "application/json");
            let request = request.body(body.to_string());
            self.agent.run(request.map_err(|error| unsaid(&error))?)
        } else {
            self.agent
                .run(request.body(()).map_err(|error| unsaid(&error))?)
        };
        let response = sent.map_err(|error| match error {
            ureq::Error::Timeout(_) => Trouble::Late(format!("{method} {path}")),
            error => Trouble::Unreachable(error.to_string()),
        })?;
        Answer::of(response, &self.settings.url)
    }

    /// The address of a path of this service: of no other.
    fn address(&self, path: &str) -> Result<String, Trouble> {
        let path = path
            .strip_prefix(self.settings.url.as_str())
            .unwrap_or(path);
        if path.starts_with('/') && !path.starts_with("//") {
            Ok(format!("{}{path}", self.settings.url))
        } else {
            Err(Trouble::Garbled {
                path: path.to_owned(),
                why: "it is no path of this service".into(),
            })
        }
    }

    fn log_in(&self, user: &str, password: &Secret) -> Result<Secret, Trouble> {
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = &*session {
            return Ok(session.token.clone());
        }
        let answer = self.request(&Method::GET, "/redfish/v1/", None, None)?;
        let root: Root =
            serde_json::from_str(&answer.checked("/redfish/v1/")?.text).unwrap_or_default();
        let sessions = match (root.links.sessions, root.session_service) {
            (Some(sessions), _) => sessions.path,
            (None, Some(service)) => format!("{}/Sessions", service.path.trim_end_matches('/')),
            (None, None) => "/redfish/v1/SessionService/Sessions".to_owned(),
        };
        let body = json!({"UserName": user, "Password": password.0});
        let answer = self.request(&Method::POST, &sessions, Some(&body), None)?;
        let answer = answer.checked(&sessions)?;
        let token = answer.token.ok_or_else(|| Trouble::Garbled {
            path: sessions,
            why: "it gave no X-Auth-Token".into(),
        })?;
        *session = Some(Session {
            token: token.clone(),
            path: answer.location,
        });
        Ok(token)
    }

    /// Ends the session, where there is one: services keep few.
    pub fn log_out(&self) {
        let session = self
            .session
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(Session {
            token,
            path: Some(path),
        }) = session
        {
            // It ends by itself, too.
            let _ = self.request(&Method::DELETE, &path, None, Some(&token));
        }
    }
}

fn basic(user: &str, password: &Secret) -> String {
    let text = format!("{user}:{}", password.0);
    format!(
        "Basic {}",
        base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text)
    )
}
