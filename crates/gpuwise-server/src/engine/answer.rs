//! What it answers: words, one a token, when they are due.

use super::{Engine, Shared};
use crate::http::json as json_of;
use axum::{
    body::{Body, Bytes},
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};
use std::{
    convert::Infallible,
    sync::{Arc, atomic::Ordering},
    time::Instant,
};
use tokio::{sync::mpsc, time::sleep_until};
use tokio_stream::wrappers::ReceiverStream;

/// Tokens of an answer, where nobody says how many.
const USUAL: u64 = 64;

/// Pieces that may lie between the engine and whoever reads: more are held back.
const AHEAD: usize = 16;

pub(super) async fn models(State(engine): Shared) -> Response {
    let one = json!({"id": engine.settings.model, "object": "model", "created": 0, "owned_by": "gpuwise"});
    json_of(StatusCode::OK, &json!({"object": "list", "data": [one]}))
}

pub(super) async fn completions(State(engine): Shared, body: Bytes) -> Response {
    run(engine, &body, Form::Text).await
}

pub(super) async fn chat(State(engine): Shared, body: Bytes) -> Response {
    run(engine, &body, Form::Chat).await
}

#[derive(Debug, Clone, Copy)]
enum Form {
    Text,
    Chat,
}

struct Asked {
    form: Form,
    input: u64,
    output: u64,
    stream: bool,
    usage: bool,
}

/// What is asked, or why it cannot be answered.
fn asked(engine: &Engine, body: &[u8], form: Form) -> Result<Asked, (StatusCode, String)> {
    let wrong = |what: &str| (StatusCode::BAD_REQUEST, what.to_owned());
    let body: Value =
        serde_json::from_slice(body).map_err(|error| wrong(&format!("the body: {error}")))?;
    let model = body["model"].as_str().unwrap_or_default();
    if model != engine.settings.model {
        let what = format!("The model `{model}` does not exist.");
        return Err((StatusCode::NOT_FOUND, what));
    }
    let input = match form {
        Form::Text => match &body["prompt"] {
            Value::String(text) => words(text),
            Value::Array(parts) => parts.len() as u64,
            _ => return Err(wrong("prompt: expected a text")),
        },
        Form::Chat => {
            let messages = body["messages"].as_array();
            let messages = messages.ok_or_else(|| wrong("messages: expected a list"))?;
            let texts = messages.iter().filter_map(|one| one["content"].as_str());
            texts.map(words).sum()
        }
    };
    let most = body["max_completion_tokens"].as_u64();
    Ok(Asked {
        form,
        input: input.max(1),
        output: most.or(body["max_tokens"].as_u64()).unwrap_or(USUAL).max(1),
        stream: body["stream"].as_bool().unwrap_or(false),
        usage: body["stream_options"]["include_usage"]
            .as_bool()
            .unwrap_or(false),
    })
}

fn words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

async fn run(engine: Arc<Engine>, body: &[u8], form: Form) -> Response {
    let refused = |status: StatusCode, what: String| {
        let error =
            json!({"message": what, "type": "invalid_request_error", "code": status.as_u16()});
        json_of(status, &json!({ "error": error }))
    };
    if !engine.loaded.load(Ordering::Relaxed) || engine.asleep.load(Ordering::Relaxed) {
        return refused(
            StatusCode::SERVICE_UNAVAILABLE,
            "the engine sleeps, or loads".into(),
        );
    }
    let asked = match asked(&engine, body, form) {
        Ok(asked) => asked,
        Err((status, what)) => return refused(status, what),
    };
    let (sender, receiver) = mpsc::channel::<Result<Bytes, Infallible>>(AHEAD);
    if asked.stream {
        tokio::spawn(async move {
            let _ = generate(&engine, &asked, Some(&sender)).await;
        });
        let form = [(header::CONTENT_TYPE, "text/event-stream; charset=utf-8")];
        return (form, Body::from_stream(ReceiverStream::new(receiver))).into_response();
    }
    let Some(text) = generate(&engine, &asked, None).await else {
        return refused(StatusCode::SERVICE_UNAVAILABLE, "the engine stops".into());
    };
    json_of(StatusCode::OK, &whole(&engine, &asked, &text))
}

/// Makes the tokens when they are due; `None`: nobody takes them any more.
async fn generate(
    engine: &Engine,
    asked: &Asked,
    to: Option<&mpsc::Sender<Result<Bytes, Infallible>>>,
) -> Option<String> {
    let arrived = Instant::now();
    let waiting = engine.metrics.waits();
    let _slot = engine.slots.acquire().await.ok()?;
    drop(waiting);
    let _running = engine.metrics.runs();
    engine.metrics.prompt(asked.input);
    let mut due = Instant::now() + engine.settings.ttft;
    let mut text = String::new();
    let mut first = None;
    for token in 0..asked.output {
        sleep_until(due.into()).await;
        due += engine.settings.tpot;
        first.get_or_insert_with(Instant::now);
        engine.metrics.generated();
        let word = if token == 0 { "word" } else { " word" };
        text += word;
        if let Some(to) = to {
            let end = token + 1 == asked.output;
            to.send(Ok(event(&piece(engine, asked, word, end))))
                .await
                .ok()?;
        }
    }
    let first = first.unwrap_or(arrived);
    engine.metrics.done(arrived, first, asked.output);
    if let Some(to) = to {
        if asked.usage {
            let mut last = piece(engine, asked, "", true);
            last["choices"] = json!([]);
            last["usage"] = usage(asked);
            to.send(Ok(event(&last))).await.ok()?;
        }
        to.send(Ok("data: [DONE]\n\n".into())).await.ok()?;
    }
    Some(text)
}

fn event(value: &Value) -> Bytes {
    format!("data: {value}\n\n").into()
}

fn piece(engine: &Engine, asked: &Asked, word: &str, end: bool) -> Value {
    let finish = if end { json!("length") } else { Value::Null };
    let (object, mut choice) = match asked.form {
        Form::Text => ("text_completion", json!({"text": word})),
        Form::Chat => (
            "chat.completion.chunk",
            json!({"delta": {"role": "assistant", "content": word}}),
        ),
    };
    choice["index"] = json!(0);
    choice["finish_reason"] = finish;
    json!({"id": "cmpl-0", "object": object, "created": 0, "model": engine.settings.model, "choices": [choice]})
}

fn whole(engine: &Engine, asked: &Asked, text: &str) -> Value {
    let (object, mut choice) = match asked.form {
        Form::Text => ("text_completion", json!({"text": text})),
        Form::Chat => (
            "chat.completion",
            json!({"message": {"role": "assistant", "content": text}}),
        ),
    };
    choice["index"] = json!(0);
    choice["finish_reason"] = json!("length");
    json!({
        "id": "cmpl-0", "object": object, "created": 0, "model": engine.settings.model,
        "choices": [choice], "usage": usage(asked),
    })
}

fn usage(asked: &Asked) -> Value {
    json!({
        "prompt_tokens": asked.input, "completion_tokens": asked.output,
        "total_tokens": asked.input + asked.output,
    })
}
