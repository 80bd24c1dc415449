//! Language models that run as one forward pass, and speech.

use super::{
    super::{
        WalkError,
        language::{self, Span},
        sizes::{Sizes, missing},
        tracer::Tracer,
    },
    Parts,
};
use alloc::{format, string::String, vec, vec::Vec};
use gpuwise_domain::{
    model::{Architecture, Tensor},
    network::{LanguagePart, PartRole},
};

/// Positions of Whisper's encoder in one second of audio: frames of 10 ms, halved once.
const POSITIONS_PER_SECOND: f64 = 50.0;

/// A language model, or the part of it that is run.
pub(super) fn language_model(
    sizes: &Sizes<'_>,
    name: &str,
    model: &Architecture,
    part: LanguagePart,
    assumed: &mut Vec<String>,
) -> Parts {
    let most = model.max_context.map_or(u64::MAX, |most| most.0);
    match part {
        LanguagePart::Encoder => {
            let tokens = sizes.text(name)?;
            let mut tracer = Tracer::new();
            assumed.extend(encode(&mut tracer, model, tokens)?);
            Ok(vec![tracer.part(
                name,
                PartRole::TextEncoder,
                sizes.guidance(),
            )])
        }
        LanguagePart::Body | LanguagePart::Decoder => {
            let tokens = sizes.text_up_to(name, most)?;
            let mut tracer = Tracer::new();
            language::outside(&mut tracer, &model.outside, tokens);
            let span = Span::whole(tokens);
            let unknown = language::layers(&mut tracer, "layer", &model.layers, model.hidden, span);
            assumed.extend(unknown);
            if part == LanguagePart::Decoder {
                language::head(&mut tracer, model, tokens);
                // They are loaded too, although only text is read.
                for tower in &model.towers {
                    let stored: u64 = tower.tensors.iter().map(Tensor::elements).sum();
                    tracer.parameters(stored);
                }
            }
            let role = if sizes.denoises() {
                PartRole::TextEncoder
            } else {
                PartRole::Backbone
            };
            Ok(vec![tracer.part(name, role, sizes.guidance())])
        }
        LanguagePart::Whole => whole(sizes, name, model, assumed),
    }
}

/// Encoder and embedding over so many tokens.
fn encode(
    tracer: &mut Tracer,
    model: &Architecture,
    tokens: u64,
) -> Result<Vec<String>, WalkError> {
    let Some(encoder) = &model.encoder else {
        return Err(missing("the model", "an encoder"));
    };
    let hears = encoder.positions.is_some();
    if hears {
        language::convolutions(tracer, &encoder.outside, model.hidden, tokens);
    } else {
        let embedding = model.outside.get(..1).unwrap_or_default();
        language::outside(tracer, embedding, tokens);
    }
    language::outside(tracer, &encoder.outside, tokens);
    let span = Span::whole(tokens);
    Ok(language::layers(
        tracer,
        "layer",
        &encoder.layers,
        model.hidden,
        span,
    ))
}

/// An encoder once, and a decoder token by token; in windows where it hears.
fn whole(sizes: &Sizes<'_>, name: &str, model: &Architecture, assumed: &mut Vec<String>) -> Parts {
    let hears = model.encoder.as_ref().and_then(|encoder| encoder.positions);
    let (source, windows) = match hears {
        Some(positions) => {
            let window = positions.0 as f64 / POSITIONS_PER_SECOND;
            let seconds = sizes.input.seconds.unwrap_or(window);
            (positions.0, libm::ceil(seconds / window))
        }
        None => (sizes.text(name)?, 1.0),
    };
    let written = sizes
        .input
        .written_tokens
        .ok_or_else(|| missing(name, "a number of tokens that it writes"))?;
    let mut encoder = Tracer::new();
    assumed.extend(encode(&mut encoder, model, source)?);
    let mut cache = Tracer::new();
    language::source_cache(&mut cache, model, source);
    let mut decoder = Tracer::new();
    // A tied embedding is counted with the encoder, which reads it too.
    let outside = usize::from(hears.is_none());
    if outside > 0 {
        decoder.shared(|tracer| {
            language::outside(tracer, model.outside.get(..outside).unwrap_or_default(), 1);
        });
    }
    language::outside(
        &mut decoder,
        model.outside.get(outside..).unwrap_or_default(),
        1,
    );
    let span = Span {
        tokens: 1,
        // The mean over the tokens written, each of which sees itself and those before.
        context: f64::midpoint(written as f64, 1.0),
        source,
        source_cached: true,
    };
    let unknown = language::layers(&mut decoder, "layer", &model.layers, model.hidden, span);
    assumed.extend(unknown);
    language::head(&mut decoder, model, 1);
    Ok(vec![
        encoder.part(format!("{name}.encoder"), PartRole::Encoder, windows),
        cache.part(format!("{name}.cross_cache"), PartRole::Encoder, windows),
        decoder.part(
            format!("{name}.decoder"),
            PartRole::Decoder,
            windows * written as f64,
        ),
    ])
}
