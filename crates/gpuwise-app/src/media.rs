//! Diffusion, vision, speech and embedding models as settings name them: finding one, the size of its input, its formats,
//! and which command answers for it.

use crate::{catalogue::Loaded, error::Problem, settings};
use anyhow::Context as _;
use gpuwise_domain::{
    media::MediaUnit,
    network::{Component, InputSize, LanguagePart, Network, Shape},
    precision::Compute,
};
use gpuwise_read::{network, workload as quantities};
use std::{fs, path::Path};

/// Seconds of audio that speech networks take at a time.
pub(crate) const WINDOW: f64 = 30.0;

/// The network of a name, a directory or a file, where there is one that can be read.
pub(crate) fn known(name: &str, loaded: &Loaded) -> Option<Network> {
    let path = Path::new(name);
    if path.exists()
        && let Ok(network) = read_path(name, path)
    {
        // Of what generates text, files of weights say more, and what is wrong with them.
        let text = |part: &Component| match &part.shape {
            Shape::Language(model, _) => !model.takes_audio(),
            _ => false,
        };
        return (!network.components.iter().all(text)).then_some(network);
    }
    loaded.networks.entry(name)?;
    loaded.networks.resolve(name, &loaded.models).ok()
}

/// The network of a directory or a file.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn read_path(name: &str, path: &Path) -> anyhow::Result<Network> {
    let text = |file: &Path| {
        fs::read_to_string(file)
            .map_err(|error| Problem::new(format!("cannot read {}", file.display())).because(error))
    };
    let index = path.join("model_index.json");
    if index.is_file() {
        let part = |part: &str| fs::read_to_string(path.join(part).join("config.json")).ok();
        return network::read_pipeline(name, &text(&index)?, &part)
            .map_err(|error| Problem::new(name.to_string()).because(error).into());
    }
    let file = if path.is_dir() {
        path.join("config.json")
    } else {
        path.to_path_buf()
    };
    network::read_network(name, &text(&file)?).map_err(|error| {
        Problem::new(file.display().to_string())
            .because(error)
            .into()
    })
}

/// That a model is none of language: what it does, and which commands answer for it.
pub(crate) fn no_language_model(network: &Network) -> Problem {
    let Network { name, task, .. } = network;
    let does = match task.as_str() {
        "" => "it is a diffusion, vision, speech or embedding model".to_owned(),
        task => format!("it goes from {task}"),
    };
    Problem::new(format!("{name} is no language model: {does}"))
        .hint(answered(name, unit_of(network)))
}

/// The commands that answer for a network.
pub(crate) fn answered(name: &str, unit: MediaUnit) -> String {
    let usage = usage(unit);
    format!("`gpuwise plan {name} {usage}` sizes its service, `gpuwise memory {name}` its memory")
}

/// In what a service of it is counted: as its task says, else as its parts do.
pub(crate) fn unit_of(network: &Network) -> MediaUnit {
    match network.task.as_str() {
        "text to image" => return MediaUnit::Images,
        "text to video" => return MediaUnit::Videos,
        "speech to text" => return MediaUnit::AudioHours,
        "text to vector" | "text to states" => return MediaUnit::Texts,
        "pair to score" => return MediaUnit::Pairs,
        "" => {}
        _ => return MediaUnit::Samples,
    }
    let has = |is: fn(&Shape) -> bool| network.components.iter().any(|part| is(&part.shape));
    if has(|shape| matches!(shape, Shape::VideoAutoencoder(_))) {
        MediaUnit::Videos
    } else if has(|shape| matches!(shape, Shape::Unet(_) | Shape::Transformer(_))) {
        MediaUnit::Images
    } else if has(
        |shape| matches!(shape, Shape::Language(model, LanguagePart::Whole) if model.takes_audio()),
    ) {
        MediaUnit::AudioHours
    } else if has(|shape| {
        matches!(
            shape,
            Shape::Text(_) | Shape::ClipText(_) | Shape::Language(..)
        )
    }) {
        MediaUnit::Texts
    } else {
        MediaUnit::Samples
    }
}

pub(crate) const fn usage(unit: MediaUnit) -> &'static str {
    match unit {
        MediaUnit::Images => "--images 2/s --size 1024 --steps 28 --latency p95:8s",
        MediaUnit::Videos => "--videos 30/h --size 832x480 --frames 81",
        MediaUnit::AudioHours => "--audio 40h/h",
        MediaUnit::Texts => "--texts 300/s --length 256",
        MediaUnit::Pairs => "--pairs 50/s --length 512",
        MediaUnit::Samples => "--samples 1000/s",
    }
}

/// The size of an input as flags say it.
///
/// # Errors
/// When a flag is not of its form.
pub(crate) fn input(flags: &settings::InputFlags) -> anyhow::Result<InputSize> {
    let size = flags.size.as_deref().map(pixels).transpose()?;
    counted("--frames", flags.frames)?;
    Ok(InputSize {
        width: size.map(|(width, _)| width),
        height: size.map(|(_, height)| height),
        frames: flags.frames,
        text_tokens: tokens("--length", flags.length.as_deref())?,
        ..InputSize::default()
    })
}

/// A number of tokens, where one is given.
pub(crate) fn tokens(flag: &str, text: Option<&str>) -> anyhow::Result<Option<u64>> {
    text.map(|text| quantities::tokens(text).context(flag.to_string()))
        .transpose()
        .map(|tokens| tokens.map(|tokens| tokens.0))
}

/// Refuses a number of frames or steps that is none.
pub(crate) fn counted(flag: &str, count: Option<u64>) -> anyhow::Result<()> {
    if count.is_some_and(|count| count == 0 || count > 100_000) {
        return Err(Problem::new(format!("{flag}: expected 1 to 100000")).into());
    }
    Ok(())
}

/// `1024` or `1280x720`.
fn pixels(text: &str) -> anyhow::Result<(u64, u64)> {
    let side = |side: &str| {
        let pixels: u64 = side.trim().parse().ok()?;
        (1..=65_536).contains(&pixels).then_some(pixels)
    };
    let both = match text.split_once(['x', '×', 'X']) {
        Some((width, height)) => side(width).zip(side(height)),
        None => side(text).map(|side| (side, side)),
    };
    both.ok_or_else(|| {
        Problem::new(format!(
            "--size {text}: expected pixels such as 1024 or 1280x720"
        ))
        .into()
    })
}

/// One input in words: `1024 × 1024, 28 steps`.
pub(crate) fn words(size: &InputSize, unit: MediaUnit) -> String {
    let mut parts = Vec::new();
    let pictured = !matches!(
        unit,
        MediaUnit::Texts | MediaUnit::Pairs | MediaUnit::AudioHours
    );
    if let (true, Some(width), Some(height)) = (pictured, size.width, size.height) {
        parts.push(format!("{width} × {height}"));
    }
    let counts = [
        (size.frames, "frames"),
        (size.steps, "steps"),
        (size.text_tokens, "tokens of text"),
        (size.written_tokens, "tokens written"),
    ];
    for (count, what) in counts {
        parts.extend(count.map(|count| format!("{count} {what}")));
    }
    parts.extend(size.windows.map(|windows| format!("{windows} windows")));
    if unit == MediaUnit::AudioHours {
        parts.insert(
            0,
            format!("a window of {} s", size.seconds.unwrap_or(WINDOW)),
        );
    }
    if parts.is_empty() {
        parts.push("as configured".into());
    }
    parts.join(", ")
}

/// The format in which the main part multiplies.
///
/// # Errors
/// When there is no such one.
pub(crate) fn format(name: &str) -> anyhow::Result<Compute> {
    match name.trim().to_ascii_lowercase().as_str() {
        "fp32" => Ok(Compute::Full),
        "bf16" | "fp16" => Ok(Compute::Half),
        "fp8" => Ok(Compute::Fp8),
        "int8" => Ok(Compute::Int8),
        "fp4" | "nvfp4" => Ok(Compute::Fp4),
        _ => Err(Problem::new(format!(
            "--precision {name}: diffusion, vision and embedding models multiply in fp32, fp16, fp8, int8 or fp4"
        ))
        .into()),
    }
}

/// Refuses the first of these flags that is given: it is of language models.
pub(crate) fn refuse_given(flags: &[(&str, bool)]) -> anyhow::Result<()> {
    match flags.iter().find(|(_, given)| *given) {
        Some((flag, _)) => Err(Problem::new(format!(
            "{flag} is for language models; a diffusion, vision or embedding model has none of it"
        ))
        .into()),
        None => Ok(()),
    }
}
