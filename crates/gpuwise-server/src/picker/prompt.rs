//! What a request asks a model, as far as routing goes by it.

use super::kv::Piece;
use gpuwise_domain::request::{Request, Segment};
use gpuwise_units::math::scrambled;
use serde::Deserialize;
use serde_json::Value;

/// Bytes of a token, about: of English text by tokenizers of 128,000 words and more (4.4 and above), rounded down.
const TOKEN: usize = 4;

/// Bytes of a piece of a prompt that is remembered: 64 tokens, which is what gateways usually take.
const PIECE: usize = 64 * TOKEN;

/// Pieces of a prompt that are told apart, at most; what lies beyond is its own.
const PIECES: usize = 1024;

/// Beginnings alike are alike here, so that who has one cached gets the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Prompt {
    /// Empty where it is not said.
    pub(super) model: String,
    text: Vec<u8>,
    /// Where the prompt is tokens and no text.
    pub(super) tokens: Option<Vec<u32>>,
}

/// Requests of OpenAI's API; what else they say is not looked at.
#[derive(Deserialize)]
struct Body {
    model: Option<String>,
    messages: Option<Value>,
    prompt: Option<Value>,
    input: Option<Value>,
}

impl Prompt {
    /// Of a body in OpenAI's form; any other is a prompt as it stands.
    pub(super) fn of(body: &[u8]) -> Self {
        let Ok(read) = serde_json::from_slice::<Body>(body) else {
            return Self {
                model: String::new(),
                text: body.to_vec(),
                tokens: None,
            };
        };
        let said = read.messages.or(read.prompt).or(read.input);
        let tokens = said.as_ref().and_then(Value::as_array).and_then(|all| {
            let number = |one: &Value| u32::try_from(one.as_u64()?).ok();
            all.iter().map(number).collect()
        });
        let mut text = said.map_or_else(String::new, |said| said.to_string());
        // What a conversation and its continuation share ends before the bracket that closes it.
        if text.ends_with(']') {
            text.pop();
        }
        Self {
            model: read.model.unwrap_or_default(),
            text: text.into_bytes(),
            tokens: tokens.filter(|all: &Vec<u32>| !all.is_empty()),
        }
    }

    /// Its text, in bytes.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// Each piece of a request made of it, by all that comes before it too, and where it ends.
    pub(super) fn pieces(request: &Request) -> Vec<Piece> {
        let (mut key, mut tokens) = (0, 0);
        let pieces = request.prefix.iter().flatten().zip(1..);
        let piece = |(segment, nth): (&Segment, usize)| {
            key = scrambled(key ^ segment.content).rotate_left(17);
            tokens += u64::from(segment.tokens);
            Piece {
                key,
                tokens,
                end: nth * PIECE,
            }
        };
        pieces.map(piece).collect()
    }

    /// As rules of routing take it.
    pub(super) fn request(&self, session: Option<&str>, adapter: u16) -> Request {
        let segment = |piece: &[u8]| Segment {
            // Another model's cache is another one.
            content: hash(piece, u64::from(adapter)),
            tokens: (piece.len() / TOKEN) as u32,
        };
        let pieces = self.text.chunks_exact(PIECE).take(PIECES).map(segment);
        Request {
            input: u32::try_from(self.text.len() / TOKEN).unwrap_or(u32::MAX),
            prefix: Some(pieces.collect()),
            session: session.map(|name| hash(name.as_bytes(), 0) as u32),
            adapter,
            ..Request::default()
        }
    }
}

pub(super) fn hash(bytes: &[u8], from: u64) -> u64 {
    bytes.chunks(8).fold(scrambled(from), |sum, part| {
        let word = part
            .iter()
            .fold(0, |word, byte| word << 8 | u64::from(*byte));
        scrambled(sum.rotate_left(23) ^ word)
    })
}
