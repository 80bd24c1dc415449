//! GGUF files, measured by llama.cpp's own tools on this machine.

use super::{
    super::gguf,
    Distance, Figure, Measured, Side, Speed, Text, loss,
    output::{self, Bench, Beside, Pieces},
    tools::Tools,
};
use crate::{
    catalogue::Loaded,
    error::Problem,
    model::{self, ResolvedModel},
    programs::ran,
    progress,
    settings::MeasureFlags,
};
use std::{
    ffi::OsStr,
    fs,
    io::Read as _,
    path::{Path, PathBuf},
};

/// Tokens of the prompt and of the answer whose time is taken, as `llama-bench` has them.
const PROMPT: u64 = 512;
const ANSWER: u64 = 128;
/// Perplexities that differ by less are equal: log-probabilities of the original are kept in 16 bits.
const ROUNDED: f64 = 1e-3;

/// A GGUF file whose header was read.
struct File {
    path: PathBuf,
    model: ResolvedModel,
}

impl File {
    fn read(name: &str) -> anyhow::Result<Self> {
        let path = PathBuf::from(name);
        if !path.is_file() {
            let what = if path.is_dir() {
                "is a directory"
            } else {
                "is not there"
            };
            return Err(Problem::new(format!("--measure: {name} {what}"))
                .hint("name a GGUF file, or the address of a server, such as http://localhost:8000; a directory of safetensors is measured where it is served")
                .into());
        }
        let model = model::resolve(name, &Loaded::default(), true)?;
        if !model.gguf {
            return Err(Problem::new(format!("--measure: {name} is no GGUF file"))
                .hint("llama.cpp measures GGUF files; serve others, and give the address of the server")
                .into());
        }
        Ok(Self { path, model })
    }

    fn bytes(&self) -> Option<u64> {
        let stored = self.model.architecture.stored.as_ref();
        stored.map(gpuwise_domain::model::StoredWeights::total)
    }

    /// The format of most bytes, as catalogues of quality call it.
    fn scheme(&self) -> Option<String> {
        Some(format!("gguf-{}", gguf::format(&self.model.architecture)?))
    }

    fn side(&self, perplexity: Figure, bench: &Bench) -> Side {
        Side {
            name: self.model.name.clone(),
            bytes: self.bytes(),
            perplexity,
            speed: Some(Speed {
                prompt: bench.prompt,
                answer: bench.answer,
            }),
        }
    }
}

/// Runs of one text.
struct Runs<'a> {
    tools: Tools,
    text: PathBuf,
    piece: String,
    folder: &'a Path,
}

impl Runs<'_> {
    /// The perplexity of a file; log-probabilities of every token are kept where a file for them is named.
    fn perplexity(&self, file: &File, keep: Option<&Path>) -> anyhow::Result<(Figure, Pieces)> {
        progress::doing(&format!("{}: perplexity", file.model.name));
        let mut arguments = vec![
            OsStr::new("-m"),
            file.path.as_os_str(),
            OsStr::new("-c"),
            OsStr::new(&self.piece),
            OsStr::new("-f"),
            self.text.as_os_str(),
        ];
        if let Some(keep) = keep {
            arguments.extend([OsStr::new("--kl-divergence-base"), keep.as_os_str()]);
        }
        let (perplexity, pieces) = self.told(&arguments, output::perplexity)?;
        if let Some(keep) = keep {
            self.whole(keep, pieces)?;
        }
        Ok((perplexity, pieces))
    }

    fn divergence(&self, file: &File, kept: &Path) -> anyhow::Result<(Beside, Pieces)> {
        progress::doing(&format!("{}: beside the original", file.model.name));
        let arguments = [
            OsStr::new("-m"),
            file.path.as_os_str(),
            OsStr::new("-c"),
            OsStr::new(&self.piece),
            OsStr::new("--kl-divergence-base"),
            kept.as_os_str(),
            OsStr::new("--kl-divergence"),
        ];
        self.told(&arguments, output::divergence)
    }

    /// What `llama-perplexity` says, which runs once more where the end of that is missing: its log is written by a thread
    /// that it does not always wait for (ggml-org/llama.cpp, issue 22142), least on a busy machine.
    fn told<T>(
        &self,
        arguments: &[&OsStr],
        read: impl Fn(&str) -> Result<T, String>,
    ) -> anyhow::Result<(T, Pieces)> {
        let printed = ran(&self.tools.perplexity, arguments)?;
        if let (Ok(told), Ok(pieces)) = (printed.read(&read), printed.read(output::pieces)) {
            return Ok((told, pieces));
        }
        let printed = ran(&self.tools.perplexity, arguments)?;
        Ok((printed.read(&read)?, printed.read(output::pieces)?))
    }

    fn bench(&self, file: &File) -> anyhow::Result<Bench> {
        progress::doing(&format!("{}: tokens a second", file.model.name));
        let (prompt, answer) = (PROMPT.to_string(), ANSWER.to_string());
        let arguments = [
            OsStr::new("-m"),
            file.path.as_os_str(),
            OsStr::new("-o"),
            OsStr::new("json"),
            OsStr::new("-p"),
            OsStr::new(&prompt),
            OsStr::new("-n"),
            OsStr::new(&answer),
        ];
        let printed = ran(&self.tools.bench, &arguments)?;
        let read = output::bench(&printed.out, PROMPT, ANSWER);
        Ok(read.map_err(|what| printed.wrong(&what))?)
    }

    /// Whether all log-probabilities were kept: llama.cpp does not look whether the disk took them. A header of 20 bytes,
    /// the tokens, and of each scored token a number of two bytes for each word of the vocabulary and four more.
    fn whole(&self, kept: &Path, pieces: Pieces) -> anyhow::Result<()> {
        let unreadable = |error| {
            Problem::new(format!(
                "cannot read what was kept in {}",
                self.folder.display()
            ))
            .because(error)
        };
        let mut head = [0; 20];
        let mut file = fs::File::open(kept).map_err(unreadable)?;
        file.read_exact(&mut head).map_err(unreadable)?;
        let vocabulary = u64::from(u32::from_le_bytes([head[12], head[13], head[14], head[15]]));
        let each = 2 * (2 * vocabulary.div_ceil(2) + 4);
        let expected = 20 + pieces.count * pieces.tokens * 4 + pieces.scored() * each;
        let there = file.metadata().map_err(unreadable)?.len();
        if there == expected {
            return Ok(());
        }
        Err(Problem::new(format!(
            "{there} of {expected} bytes of the original's log-probabilities were kept in {}",
            self.folder.display()
        ))
        .hint("is the disk full? TMPDIR names another place; a shorter --text needs less")
        .into())
    }
}

pub(super) fn measure(model: &str, asked: &MeasureFlags, text: &Text) -> anyhow::Result<Measured> {
    let file = File::read(model)?;
    let original = asked.against.as_deref().map(File::read).transpose()?;
    let tools = Tools::find()?;
    let folder = tempfile::tempdir()
        .map_err(|error| Problem::new("no folder for what is kept meanwhile").because(error))?;
    let path = if let Some(path) = &text.path {
        path.clone()
    } else {
        let path = folder.path().join("text.txt");
        fs::write(&path, &text.content)
            .map_err(|error| Problem::new("the text cannot be written").because(error))?;
        path
    };
    let runs = Runs {
        tools,
        text: path,
        piece: asked.piece.to_string(),
        folder: folder.path(),
    };
    let mut notes = Vec::new();
    let (perplexity, pieces, distance) = match &original {
        None => {
            let (perplexity, pieces) = runs.perplexity(&file, None)?;
            (perplexity, pieces, None)
        }
        Some(original) => {
            let (perplexity, pieces, distance) = beside(&runs, &file, original, &mut notes)?;
            (perplexity, pieces, Some(distance))
        }
    };
    let bench = runs.bench(&file)?;
    notes.push(format!(
        "tokens/s: a prompt of {PROMPT} tokens and an answer of {ANSWER}, one at a time, on {}",
        bench.device
    ));
    Ok(Measured {
        model: file.side(perplexity, &bench),
        distance,
        text: text.name.clone(),
        scored: pieces.scored(),
        pieces: format!("{} pieces of {} tokens", pieces.count, pieces.tokens),
        by: bench.release,
        scheme: file.scheme(),
        parameters_b: Some(file.model.architecture.parameters().0 as f64 / 1e9),
        notes,
    })
}

/// Both files on one text, token by token.
fn beside(
    runs: &Runs<'_>,
    file: &File,
    original: &File,
    notes: &mut Vec<String>,
) -> anyhow::Result<(Figure, Pieces, Distance)> {
    let kept = runs.folder.join("log-probabilities");
    let (before, cut) = runs.perplexity(original, Some(&kept))?;
    let (told, pieces) = runs.divergence(file, &kept)?;
    if pieces != cut {
        return Err(Problem::new(format!(
            "{} was measured on {} pieces, the original on {}",
            file.model.name, pieces.count, cut.count
        ))
        .into());
    }
    // Frees the disk before speeds are taken.
    fs::remove_file(&kept).map_err(|error| Problem::new("what was kept stays").because(error))?;
    let rounded = told.original.value / before.value - 1.0;
    if rounded.abs() > ROUNDED {
        notes.push(format!(
            "llama.cpp kept the original's log-probabilities in 16 bits, which moves its perplexity by {:.1} %: KL \
             divergence is of those, the loss is not",
            rounded * 100.0
        ));
    }
    let distance = Distance {
        original: original.side(before, &runs.bench(original)?),
        loss: loss(told.perplexity.value, before.value, told.ratio.error),
        divergence: Some(told.divergence),
        same_first: told.same_first,
    };
    Ok((told.perplexity, pieces, distance))
}
