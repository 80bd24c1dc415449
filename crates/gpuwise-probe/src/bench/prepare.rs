//! Before the load: is the server there, what does it serve, which fields does it take, and how
//! does it count words?

use super::{
    body::{Bodies, Dialect},
    client::{Client, Sending},
    clock::Clock,
    exchange::{ResponseState, exchange},
    failure::{Failure, Stage},
    link::Route,
    prompt::{Calibration, Prompts, Role, Turn, random_words},
    target::{Interface, Secret, Target, TargetError, Trust, server_name, tls},
};
use bytes::Bytes;
use hyper::Method;
use serde_json::{Map, Value, json};
use std::{
    io,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};
use thiserror::Error;

/// Words of the first request, which only finds out what the server takes.
const FIRST_WORDS: u64 = 24;
/// Words of the longest request that is sent to find out how the server counts.
const MOST_WORDS: u64 = 512;

#[derive(Debug, Clone)]
pub struct Options {
    pub target: Target,
    /// Which interface; `None`: the one that its address names, else chat, else completions.
    pub interface: Option<Interface>,
    /// The model; `None`: the first that it names.
    pub model: Option<String>,
    pub key: Option<Secret>,
    pub trust: Trust,
    /// Answers come as streams.
    pub stream: bool,
    /// A request is given up after this.
    pub timeout: Duration,
    /// The server is said to be out of reach after this.
    pub patience: Duration,
    /// What it was too full for is sent again.
    pub retry_after: bool,
    /// Fields of bodies that win over ours.
    pub extra: Map<String, Value>,
    /// Prompts with the same seed have the same words.
    pub prompt_seed: u64,
    /// The longest prompt that will be sent, in tokens.
    pub longest_input: u32,
}

/// The server cannot be measured.
#[derive(Debug, Error)]
pub enum PrepareError {
    /// What was asked cannot be.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// No thread or runtime.
    #[error("no request can be sent from here")]
    Runtime(#[source] io::Error),
    /// It cannot be reached, or does not do what is needed.
    #[error("{what}: {failure}")]
    Server {
        /// What was tried, and where.
        what: String,
        failure: Failure,
    },
    #[error("{server} names no model ({why}), and none was given")]
    NoModel {
        server: String,
        /// What it said instead.
        why: String,
    },
}

/// A server that answers, and how to ask it.
#[derive(Debug, Clone)]
pub struct Prepared {
    pub(crate) route: Route,
    pub(crate) key: Option<Secret>,
    pub(crate) sending: Arc<Sending>,
    /// Its address, as it may be shown.
    pub server: String,
    pub model: String,
    /// Who the server says it is, such as vllm or llamacpp.
    pub engine: Option<String>,
    /// Longest context, where it says so.
    pub longest_context: Option<u64>,
    pub interface: Interface,
    pub dialect: Dialect,
    /// Answers come as streams.
    pub stream: bool,
    /// How it counts words; `None`: it does not say, and a word is taken for a token.
    pub calibration: Option<Calibration>,
    /// What a reader of the result must know.
    pub notes: Vec<String>,
    prompt_seed: u64,
}

impl Prepared {
    pub(crate) fn prompts(&self) -> Prompts {
        Prompts {
            seed: self.prompt_seed,
            own_seed: self.prompt_seed,
            calibration: self.calibration.unwrap_or_default(),
        }
    }
}

/// Asks the server what it serves and sends it a few short requests.
///
/// # Errors
/// When it cannot be reached, or does not answer such requests.
pub fn prepare(options: Options) -> Result<Prepared, PrepareError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(PrepareError::Runtime)?;
    runtime.block_on(prepared(options))
}

/// What the list of models says.
#[derive(Debug, Default)]
struct Listed {
    names: Vec<String>,
    engine: Option<String>,
    longest_context: Option<u64>,
}

async fn prepared(options: Options) -> Result<Prepared, PrepareError> {
    let route = route(&options).await?;
    let client = Arc::new(Client::new(route.clone(), options.key.clone(), 0));
    let server = options.target.shown();
    let mut notes = Vec::new();
    let listed = within(options.patience, models(&client)).await;
    let failed = |failure: Failure| PrepareError::Server {
        what: format!("{server} cannot be measured"),
        failure,
    };
    let (listed, why) = match listed {
        Ok(listed) => (listed, "its list is empty".to_owned()),
        // A gateway may have no list; whether it has a model is seen at once.
        Err(failure @ (Failure::Status { .. } | Failure::Garbage(_))) => {
            (Listed::default(), failure.to_string())
        }
        Err(failure) => return Err(failed(failure)),
    };
    let model = match (&options.model, listed.names.first()) {
        (Some(model), _) => model.clone(),
        (None, Some(first)) => {
            if listed.names.len() > 1 {
                let all = listed.names.join(", ");
                notes.push(format!(
                    "{server} serves {all}: {first} is measured (--model)"
                ));
            }
            first.clone()
        }
        (None, None) => return Err(PrepareError::NoModel { server, why }),
    };
    let mut trial = Trial {
        client,
        options: &options,
        model,
    };
    let (interface, dialect) = trial.agree().await.map_err(failed)?;
    notes.extend(dialect_notes(dialect, options.stream));
    let calibration = trial.calibrate(interface, dialect).await;
    if calibration.is_none() {
        notes.push(format!(
            "{server} does not say how many tokens a prompt has: a word of two letters was taken for one"
        ));
    }
    Ok(Prepared {
        route,
        sending: Arc::new(trial.sending(interface, dialect)),
        server,
        model: trial.model,
        engine: listed.engine,
        longest_context: listed.longest_context,
        interface,
        dialect,
        stream: options.stream,
        calibration,
        notes,
        prompt_seed: options.prompt_seed,
        key: options.key,
    })
}

async fn route(options: &Options) -> Result<Route, PrepareError> {
    let target = options.target.clone();
    let config = tls(&target, &options.trust)?;
    let tls = match config {
        Some(config) => Some((config, server_name(&target)?)),
        None => None,
    };
    let unresolved = |why: String| PrepareError::Server {
        what: format!("{} cannot be measured", target.shown()),
        failure: Failure::Unresolved(why),
    };
    let found = tokio::net::lookup_host((target.host.as_str(), target.port))
        .await
        .map_err(|error| unresolved(error.to_string()))?;
    let addresses: Vec<_> = found.collect();
    if addresses.is_empty() {
        return Err(unresolved("none was found".into()));
    }
    Ok(Route {
        target,
        addresses: addresses.into(),
        tls,
        clock: Clock::start(),
    })
}

async fn within<T>(
    patience: Duration,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(patience, work).await {
        Ok(ended) => ended,
        Err(_) => Err(Failure::TimedOut(Stage::Waiting)),
    }
}

async fn models(client: &Arc<Client>) -> Result<Listed, Failure> {
    let path = client.route.target.beside("/models");
    let body = client.document(Method::GET, &path, Bytes::new()).await?;
    let Ok(value) = serde_json::from_slice::<Value>(&body) else {
        let text = super::chunk::shortened(&String::from_utf8_lossy(&body));
        return Err(Failure::Garbage(client.without_key(&text)));
    };
    let rows = value.get("data").and_then(Value::as_array);
    let rows = rows.map(Vec::as_slice).unwrap_or_default();
    let first = rows.first();
    let text = |name: &str| first.and_then(|row| row.get(name)).and_then(Value::as_str);
    let longest = first.and_then(|row| {
        row.get("max_model_len")
            .or_else(|| row.get("meta").and_then(|meta| meta.get("n_ctx")))
            .and_then(Value::as_u64)
    });
    Ok(Listed {
        names: rows
            .iter()
            .filter_map(|row| row.get("id").and_then(Value::as_str))
            .map(str::to_owned)
            .collect(),
        engine: text("owned_by").map(str::to_owned),
        longest_context: longest,
    })
}

fn dialect_notes(dialect: Dialect, stream: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if !dialect.exact_length {
        notes.push(
            "the server takes no ignore_eos and min_tokens: answers may be shorter than asked"
                .into(),
        );
    }
    if stream && !dialect.stream_usage {
        notes.push("the server takes no stream_options: where it counts no tokens, pieces of the answer are counted".into());
    }
    notes
}

/// Short requests that find out what the server takes.
struct Trial<'a> {
    client: Arc<Client>,
    options: &'a Options,
    model: String,
}

impl Trial<'_> {
    fn sending(&self, interface: Interface, dialect: Dialect) -> Sending {
        Sending {
            bodies: Bodies {
                model: self.model.clone(),
                interface,
                stream: self.options.stream,
                dialect,
                extra: self.options.extra.clone(),
            },
            path: self.options.target.path(interface),
            timeout: self.options.timeout,
            retry_after: self.options.retry_after,
        }
    }

    /// The first interface and the richest fields that the server takes.
    async fn agree(&mut self) -> Result<(Interface, Dialect), Failure> {
        let named = self.options.interface.or(self.options.target.interface());
        let interfaces = match named {
            Some(Interface::Chat) => &[Interface::Chat][..],
            Some(Interface::Completions) => &[Interface::Completions],
            None => &[Interface::Chat, Interface::Completions],
        };
        let mut first = None;
        for interface in interfaces {
            for dialect in Dialect::ALL {
                let failure = match self.ask(*interface, dialect, FIRST_WORDS, 2).await {
                    Ok(_) | Err(Failure::NoToken) => return Ok((*interface, dialect)),
                    Err(failure) => failure,
                };
                let code = match &failure {
                    Failure::Status { code, .. } => *code,
                    _ => return Err(failure),
                };
                // What the server said to the richest request tells most.
                first.get_or_insert(failure);
                if !matches!(code, 400 | 422) {
                    break;
                }
            }
        }
        Err(first.unwrap_or(Failure::NoToken))
    }

    /// Sends a request of so many random words, and says what was seen of its answer.
    async fn ask(
        &self,
        interface: Interface,
        dialect: Dialect,
        words: u64,
        output: u32,
    ) -> Result<ResponseState, Failure> {
        let sending = self.sending(interface, dialect);
        let text = random_words(self.options.prompt_seed, "bench trial", words, words);
        let turns = [Turn {
            role: Role::User,
            text,
        }];
        let body = sending.bodies.of(&turns, output);
        let mut seen = ResponseState::default();
        let live = AtomicU64::new(0);
        let asked = exchange(&self.client, &sending, &body, &mut seen, &live);
        let rest = match tokio::time::timeout(self.options.patience, asked).await {
            Ok(ended) => ended?,
            Err(_) => return Err(Failure::TimedOut(seen.stage())),
        };
        if let Some(rest) = rest {
            rest.read(&self.client).await;
        }
        Ok(seen)
    }

    /// How the server counts words: from the counts of two requests, else from its tokenizer.
    async fn calibrate(&self, interface: Interface, dialect: Dialect) -> Option<Calibration> {
        let more = u64::from(self.options.longest_input).clamp(FIRST_WORDS * 2, MOST_WORDS);
        let few = self.count(interface, dialect, FIRST_WORDS + 1).await;
        let mut many_words = more;
        let mut many = self.count(interface, dialect, many_words).await;
        // A short context refuses the longer one.
        while many.is_none() && few.is_some() && many_words > FIRST_WORDS * 3 {
            many_words /= 2;
            many = self.count(interface, dialect, many_words).await;
        }
        line((FIRST_WORDS + 1, few?), (many_words, many?))
    }

    async fn count(&self, interface: Interface, dialect: Dialect, words: u64) -> Option<u64> {
        let counted = match self.ask(interface, dialect, words, 1).await {
            Ok(seen) => seen.usage.and_then(|usage| usage.prompt),
            Err(_) => None,
        };
        match counted {
            Some(count) => Some(count),
            None => self.tokenized(words).await,
        }
    }

    /// By the tokenizer that engines offer beside the interfaces.
    async fn tokenized(&self, words: u64) -> Option<u64> {
        let text = random_words(self.options.prompt_seed, "bench trial", words, words);
        let body = json!({"model": self.model, "prompt": text, "content": text}).to_string();
        let path = self.options.target.outside("/tokenize");
        let asked = self.client.document(Method::POST, &path, body.into());
        let answer = within(self.options.patience, asked).await.ok()?;
        let value: Value = serde_json::from_slice(&answer).ok()?;
        let listed = value.get("tokens").and_then(Value::as_array);
        value
            .get("count")
            .and_then(Value::as_u64)
            .or_else(|| listed.map(|tokens| tokens.len() as u64))
    }
}

/// The line through two counts of words and tokens; `None` where none can be.
fn line(few: (u64, u64), many: (u64, u64)) -> Option<Calibration> {
    let words = many.0.checked_sub(few.0).filter(|words| *words > 0)?;
    let tokens = many.1.checked_sub(few.1)?;
    let tokens_per_word = tokens as f64 / words as f64;
    if !(0.2..=20.0).contains(&tokens_per_word) {
        return None;
    }
    let overhead = (many.1 as f64 - tokens_per_word * many.0 as f64).max(0.0);
    Some(Calibration {
        tokens_per_word,
        overhead,
    })
}
