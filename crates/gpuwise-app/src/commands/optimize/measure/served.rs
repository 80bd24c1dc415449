//! A served model, by the log-probabilities of prompts that its server tells in OpenAI's completions: vLLM and SGLang
//! do, llama.cpp's server refuses `echo`.

use super::{super::super::Context, Distance, Figure, Measured, Side, Text, loss};
use crate::{error::Problem, fetch::Client, progress, settings::MeasureFlags};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;

/// Letters of a token of English, about: texts are cut before they are tokenized.
const LETTERS: usize = 4;
/// No model gives a token less; servers write some such number for none.
const LEAST: f64 = -1000.0;

#[derive(Debug, Deserialize)]
struct Models {
    data: Vec<Named>,
}

#[derive(Debug, Deserialize)]
struct Named {
    id: String,
}

#[derive(Debug, Deserialize)]
struct Completion {
    choices: Vec<Choice>,
    usage: Usage,
}

#[derive(Debug, Deserialize)]
struct Choice {
    logprobs: Option<LogProbs>,
}

#[derive(Debug, Deserialize)]
struct LogProbs {
    tokens: Vec<String>,
    token_logprobs: Vec<Option<f64>>,
    top_logprobs: Option<Vec<Option<BTreeMap<String, f64>>>>,
}

#[derive(Debug, Deserialize)]
struct Usage {
    prompt_tokens: usize,
    completion_tokens: usize,
}

/// A token of the text: what it is, its log-probability, and the likeliest one in its place.
#[derive(Debug, Clone, PartialEq)]
struct Scored {
    token: String,
    log_probability: f64,
    first: String,
}

/// A server and the model that it is asked for.
struct Server<'a> {
    client: &'a Client,
    base: String,
    model: String,
}

impl<'a> Server<'a> {
    /// Of `http://host:8000`, `http://host:8000/v1`, or either with `#NAME` where several are served.
    fn of(client: &'a Client, address: &str) -> anyhow::Result<Self> {
        let (url, wanted) = match address.split_once('#') {
            Some((url, name)) => (url, Some(name)),
            None => (address, None),
        };
        let url = url.trim_end_matches('/');
        let base = format!("{}/v1", url.strip_suffix("/v1").unwrap_or(url));
        let said = client.get(&format!("{base}/models"), &[])?;
        let models: Models = serde_json::from_str(&said).map_err(|error| {
            Problem::new(format!("{base}/models answers no list of models")).because(error)
        })?;
        let names: Vec<String> = models.data.into_iter().map(|model| model.id).collect();
        let model = match (wanted, names.as_slice()) {
            (Some(wanted), names) => names.iter().find(|name| *name == wanted).cloned(),
            (None, [only]) => Some(only.clone()),
            (None, _) => None,
        };
        let model = model.ok_or_else(|| {
            Problem::new(format!("{base} serves {}", names.join(", ")))
                .hint(format!("say which of them is meant: {url}#NAME"))
        })?;
        Ok(Self {
            client,
            base,
            model,
        })
    }

    fn score(&self, text: &str) -> anyhow::Result<Vec<Scored>> {
        let url = format!("{}/completions", self.base);
        let asked = json!({
            "model": self.model, "prompt": text, "max_tokens": 1, "temperature": 0,
            "echo": true, "logprobs": 1,
        });
        let said = self.client.post(&url, &asked)?;
        Ok(scored(&said).map_err(|what| {
            Problem::new(format!("{url}: {what}"))
                .hint("vLLM and SGLang tell log-probabilities of a prompt (`echo` with `logprobs`); of a GGUF file measure the file")
        })?)
    }
}

/// The second half of a prompt, token by token: what stands before is what they are predicted from.
fn scored(said: &str) -> Result<Vec<Scored>, String> {
    let answer: Completion =
        serde_json::from_str(said).map_err(|error| format!("it answers no completion: {error}"))?;
    let told = answer.choices.into_iter().next();
    let told = told
        .and_then(|choice| choice.logprobs)
        .ok_or("it tells no log-probabilities")?;
    let Usage {
        prompt_tokens,
        completion_tokens,
    } = answer.usage;
    let count = told.tokens.len().saturating_sub(completion_tokens);
    // A server may leave the token out with which every text begins.
    let whole = count == prompt_tokens || count + 1 == prompt_tokens;
    if !whole || told.token_logprobs.len() != told.tokens.len() || count < 4 {
        return Err(format!(
            "it tells {} log-probabilities of a prompt of {prompt_tokens} tokens and an answer of {completion_tokens}",
            told.token_logprobs.len()
        ));
    }
    let firsts = told
        .top_logprobs
        .filter(|all| all.len() == told.tokens.len())
        .ok_or("it does not tell which tokens were likeliest (`top_logprobs`)")?;
    (count / 2..count)
        .map(|at| {
            let known = |log: &f64| log.is_finite() && *log > LEAST && *log < 1e-3;
            let log_probability = told.token_logprobs[at].filter(known).ok_or_else(|| {
                format!(
                    "token {at} has log-probability {}",
                    json!(told.token_logprobs[at])
                )
            })?;
            let likeliest = firsts[at].as_ref().and_then(|all| {
                let most = all.iter().max_by(|a, b| a.1.total_cmp(b.1));
                most.map(|(token, _)| token.clone())
            });
            Ok(Scored {
                token: told.tokens[at].clone(),
                log_probability,
                first: likeliest.ok_or_else(|| format!("token {at} has no likeliest one"))?,
            })
        })
        .collect()
}

/// Pieces of a text of about so many letters, cut between words; what is left over is no piece.
fn cut(text: &str, letters: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let (mut start, mut length) = (0, 0);
    for (at, letter) in text.char_indices() {
        length += 1;
        if length >= letters && letter.is_whitespace() {
            pieces.push(&text[start..at]);
            (start, length) = (at, 0);
        }
    }
    if pieces.is_empty() && length >= LETTERS {
        pieces.push(&text[start..]);
    }
    pieces
}

/// A mean and its standard error.
fn mean(values: &[f64]) -> Figure {
    let count = values.len() as f64;
    let value = values.iter().sum::<f64>() / count;
    let spread = values.iter().map(|one| (one - value).powi(2)).sum::<f64>() / count;
    Figure {
        value,
        error: (spread / (count - 1.0).max(1.0)).sqrt(),
    }
}

fn side(server: &Server<'_>, scored: &[Scored]) -> Side {
    let lost: Vec<f64> = scored.iter().map(|one| -one.log_probability).collect();
    let mean = mean(&lost);
    let perplexity = mean.value.exp();
    Side {
        name: server.model.clone(),
        bytes: None,
        perplexity: Figure {
            value: perplexity,
            error: perplexity * mean.error,
        },
        speed: None,
    }
}

pub(super) fn measure(
    context: &Context,
    address: &str,
    asked: &MeasureFlags,
    text: &Text,
) -> anyhow::Result<Measured> {
    let client = Client::new(&asked.access, context.app.offline)?;
    let model = Server::of(&client, address)?;
    let original = asked.against.as_deref();
    let original = original
        .map(|address| Server::of(&client, address))
        .transpose()?;
    let pieces = cut(&text.content, asked.piece as usize * LETTERS);
    let (mut after, mut before) = (Vec::new(), Vec::new());
    for (at, piece) in pieces.iter().enumerate() {
        progress::doing(&format!("piece {} of {}", at + 1, pieces.len()));
        let told = model.score(piece)?;
        if let Some(original) = &original {
            let first = original.score(piece)?;
            let tokens = |all: &[Scored]| -> Vec<String> {
                all.iter().map(|one| one.token.clone()).collect()
            };
            if tokens(&told) != tokens(&first) {
                return Err(Problem::new(format!(
                    "{} and {} cut the text into different tokens",
                    model.model, original.model
                ))
                .hint("only one model in two forms, served by one engine, can be compared token by token")
                .into());
            }
            before.extend(first);
        }
        after.extend(told);
    }
    if after.len() < 32 {
        return Err(Problem::new(format!(
            "--text {}: only {} tokens can be scored",
            text.name,
            after.len()
        ))
        .hint("a longer text, or shorter pieces (--piece)")
        .into());
    }
    Ok(Measured {
        model: side(&model, &after),
        distance: original.map(|original| distance(&original, &after, &before)),
        text: text.name.clone(),
        scored: after.len() as u64,
        pieces: format!("{} pieces of about {} tokens", pieces.len(), asked.piece),
        by: format!("log-probabilities that {} tells", model.base),
        scheme: None,
        parameters_b: None,
        notes: vec!["KL divergence needs all probabilities, of which a server tells the highest; `gpuwise bench` measures its tokens/s".into()],
    })
}

/// Two forms on one text, token by token.
fn distance(original: &Server<'_>, after: &[Scored], before: &[Scored]) -> Distance {
    let pairs = || after.iter().zip(before);
    let lost: Vec<f64> = pairs()
        .map(|(a, b)| b.log_probability - a.log_probability)
        .collect();
    let ratio = mean(&lost);
    let same: Vec<f64> = pairs()
        .map(|(a, b)| if a.first == b.first { 100.0 } else { 0.0 })
        .collect();
    Distance {
        original: side(original, before),
        loss: loss(ratio.value.exp(), 1.0, ratio.error),
        divergence: None,
        same_first: mean(&same),
    }
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn a_text_is_cut_between_words() {
        assert_eq!(cut("one two three four", 5), ["one two", " three"]);
        assert_eq!(cut("äöü äöü äöü", 3), ["äöü", " äöü"]);
        assert_eq!(cut("a word", 100), ["a word"]);
    }
}
