//! Models on the hub: the configuration, and the headers of their tensors by range requests.

use super::{
    ResolvedModel, checkpoint,
    source::{LARGEST_DOCUMENT, Parts},
};
use crate::{error::Problem, progress};
use anyhow::anyhow;
use gpuwise_read::safetensors;
use std::{env, time::Duration};
use ureq::{
    Agent, Body,
    http::{Response, StatusCode, header},
};

/// Where models are, unless `HF_ENDPOINT` says otherwise.
const HUB: &str = "https://huggingface.co";
/// A hub that does not answer is said to be out of reach after this.
const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes of the first request for a file: most headers are shorter.
const FIRST_BYTES: u64 = 512 << 10;

/// The hub as this user sees it.
struct Hub {
    agent: Agent,
    endpoint: String,
    token: Option<String>,
}

/// A model of this id on the hub.
pub(super) fn resolve(id: &str) -> anyhow::Result<ResolvedModel> {
    let hub = Hub::from_environment();
    let config = hub.document(id, "config.json")?.ok_or_else(|| {
        Problem::new(format!(
            "the hub at {} has {id} without a config.json",
            hub.endpoint
        ))
        .hint("a diffusion pipeline has none: download it, and name its directory to `gpuwise plan DIRECTORY --images 2/s`")
    })?;
    let name = format!("config.json of {id}");
    let tensors = match hub.tensors(id) {
        Ok(tensors) => tensors,
        // The configuration is enough for an answer; that headers were not had is said below.
        Err(error) => {
            progress::say(&format!(
                "note: the tensors' headers of {id} cannot be read: {error:#}"
            ));
            None
        }
    };
    let mut architecture = checkpoint::architecture(Some((&name, &config)), tensors.as_deref())?;
    let origin = match &tensors {
        Some(_) => format!(
            "{}/{id}: configuration and headers of its tensors",
            hub.endpoint
        ),
        None => format!("{}/{id}: configuration", hub.endpoint),
    };
    if tensors.is_none() {
        architecture.assumptions.push(
            "no tensors' headers were read: sizes are computed from the configuration".into(),
        );
    }
    Ok(ResolvedModel {
        name: id.into(),
        origin,
        architecture,
        gguf: false,
    })
}

impl Hub {
    fn from_environment() -> Self {
        let set = |name: &str| env::var(name).ok().filter(|value| !value.trim().is_empty());
        let agent = Agent::config_builder()
            .timeout_connect(Some(PATIENCE))
            .timeout_recv_response(Some(PATIENCE))
            .timeout_recv_body(Some(3 * PATIENCE))
            .http_status_as_error(false)
            .user_agent(concat!("gpuwise/", env!("CARGO_PKG_VERSION")))
            .build()
            .new_agent();
        Self {
            agent,
            endpoint: set("HF_ENDPOINT")
                .unwrap_or_else(|| HUB.into())
                .trim_end_matches('/')
                .into(),
            token: set("HF_TOKEN").map(|token| token.trim().into()),
        }
    }

    /// The answer to a request for a file, or for part of one; `None` where there is no such file.
    fn get(
        &self,
        id: &str,
        file: &str,
        range: Option<(u64, u64)>,
    ) -> anyhow::Result<Option<Response<Body>>> {
        let mut request = self
            .agent
            .get(format!("{}/{id}/resolve/main/{file}", self.endpoint));
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        if let Some((first, last)) = range {
            request = request.header(header::RANGE, format!("bytes={first}-{last}"));
        }
        let unreachable = |error: ureq::Error| {
            Problem::new(format!("the model hub at {} cannot be reached", self.endpoint))
                .because(error)
                .hint("with --offline it is not asked; a model downloaded to this machine is found in the local hub cache")
        };
        let response = request.call().map_err(unreachable)?;
        match response.status() {
            StatusCode::OK | StatusCode::PARTIAL_CONTENT => Ok(Some(response)),
            StatusCode::NOT_FOUND => Ok(None),
            // The hub says so too where a name does not exist.
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Err(Problem::new(format!("the hub at {} does not give {id} to this user, or has no such model", self.endpoint))
                    .hint("accept its licence on the hub and set HF_TOKEN, or give a directory with its config.json")
                    .into())
            }
            other => Err(Problem::new(format!("the hub at {} answers {other} for {file} of {id}", self.endpoint)).into()),
        }
    }

    fn document(&self, id: &str, file: &str) -> anyhow::Result<Option<String>> {
        let Some(response) = self.get(id, file, None)? else {
            return Ok(None);
        };
        let bytes = response
            .into_body()
            .into_with_config()
            .limit(LARGEST_DOCUMENT)
            .read_to_vec()?;
        String::from_utf8(bytes)
            .map(Some)
            .map_err(|_| anyhow!("{file} of {id} is no text in UTF-8"))
    }

    /// The tensors that the headers of all safetensors files describe; `None` where it has none.
    fn tensors(&self, id: &str) -> anyhow::Result<Option<Vec<safetensors::StoredTensor>>> {
        let (files, listed) = match self.document(id, "model.safetensors.index.json")? {
            Some(text) => {
                let index = safetensors::read_index(&text)?;
                (index.files, Some(index.tensors))
            }
            None => (vec!["model.safetensors".to_owned()], None),
        };
        let mut shards = Vec::new();
        for (position, file) in files.iter().enumerate() {
            progress::doing(&format!(
                "reading header {} of {} of {id}",
                position + 1,
                files.len()
            ));
            let Some(mut remote) = RemoteFile::open(self, id, file)? else {
                return match listed {
                    None => Ok(None),
                    Some(_) => Err(anyhow!(
                        "the index names {file}, which the hub does not have"
                    )),
                };
            };
            shards.push((file.clone(), checkpoint::tensors(file, &mut remote)?));
        }
        progress::doing("");
        checkpoint::joined(shards, listed).map(Some)
    }
}

/// A file on the hub, with its beginning.
struct RemoteFile<'a> {
    hub: &'a Hub,
    id: &'a str,
    file: &'a str,
    length: u64,
    beginning: Vec<u8>,
}

impl<'a> RemoteFile<'a> {
    fn open(hub: &'a Hub, id: &'a str, file: &'a str) -> anyhow::Result<Option<Self>> {
        let Some(response) = hub.get(id, file, Some((0, FIRST_BYTES - 1)))? else {
            return Ok(None);
        };
        let value = |name| {
            response
                .headers()
                .get(name)
                .and_then(|value| value.to_str().ok())
        };
        let length = if response.status() == StatusCode::PARTIAL_CONTENT {
            value(header::CONTENT_RANGE)
                .and_then(|range| range.rsplit_once('/'))
                .and_then(|(_, total)| total.parse().ok())
        } else {
            value(header::CONTENT_LENGTH).and_then(|length| length.parse().ok())
        };
        let length =
            length.ok_or_else(|| anyhow!("the hub does not say how long {file} of {id} is"))?;
        let partial = response.status() == StatusCode::PARTIAL_CONTENT;
        if !partial && length > LARGEST_DOCUMENT {
            return Err(anyhow!("the hub does not give parts of {file} of {id}"));
        }
        let limit = if partial {
            FIRST_BYTES
        } else {
            LARGEST_DOCUMENT
        };
        Ok(Some(Self {
            hub,
            id,
            file,
            length,
            beginning: response
                .into_body()
                .into_with_config()
                .limit(limit + 1)
                .read_to_vec()?,
        }))
    }
}

impl Parts for RemoteFile<'_> {
    fn length(&self) -> u64 {
        self.length
    }

    fn read(&mut self, offset: u64, length: u64) -> anyhow::Result<Vec<u8>> {
        let short = || {
            anyhow!(
                "the hub gave another part of {} than was asked for",
                self.file
            )
        };
        let end = offset.checked_add(length).ok_or_else(short)?;
        let within = |place: u64| usize::try_from(place).ok();
        if let (Some(from), Some(to)) = (within(offset), within(end))
            && let Some(bytes) = self.beginning.get(from..to)
        {
            return Ok(bytes.to_vec());
        }
        let response = self
            .hub
            .get(self.id, self.file, Some((offset, end - 1)))?
            .ok_or_else(short)?;
        let bytes = response
            .into_body()
            .into_with_config()
            .limit(length + 1)
            .read_to_vec()?;
        if bytes.len() as u64 == length {
            Ok(bytes)
        } else {
            Err(short())
        }
    }
}
