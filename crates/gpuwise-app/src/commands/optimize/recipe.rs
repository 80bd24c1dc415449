//! `gpuwise optimize --recipe`: the script of LLM Compressor that makes a form with calibration data, for where no data
//! at all costs too much quality; or the one by which a narrower model learns again from the one that it was made of.

use super::super::{Context, Exit};
use crate::{
    error::Problem,
    progress,
    settings::{Form, MakeFlags, RecipeName},
    write::Pending,
};
use std::{fmt::Write as _, path::Path};

pub(super) fn run(
    context: &Context,
    model: &Path,
    make: &MakeFlags,
    (recipe, teacher): (RecipeName, Option<&Path>),
) -> anyhow::Result<Exit> {
    let (text, packages) = match (recipe, teacher) {
        (RecipeName::Distill, Some(teacher)) => {
            (distill(model, make, teacher)?, "torch transformers")
        }
        (RecipeName::Distill, None) => {
            return Err(Problem::new("--recipe distill without --teacher")
                .hint("the model that this one was made of, such as --teacher ./model")
                .into());
        }
        (_, Some(_)) => {
            return Err(Problem::new("--teacher without --recipe distill")
                .hint("calibration asks no other model: leave it out")
                .into());
        }
        (_, None) => (script(model, make, recipe)?, "llmcompressor datasets"),
    };
    match &make.output {
        Some(path) => {
            Pending::new(path)?.finish(&text)?;
            progress::say(&format!(
                "written: {}; it needs a GPU, and `pip install {packages}`",
                path.display()
            ));
        }
        None => context.data(&text)?,
    }
    Ok(Exit::Yes)
}

/// What runs as it is, but for the two models.
const DISTILL: &str = include_str!("distill.py");

fn distill(model: &Path, make: &MakeFlags, teacher: &Path) -> anyhow::Result<String> {
    let extra = [
        ("--to", make.to.is_some()),
        ("--scales", make.scales.is_some()),
        ("--asymmetric", make.asymmetric),
        ("--keep", !make.keep.is_empty()),
    ];
    if let Some((flag, _)) = extra.into_iter().find(|(_, given)| *given) {
        return Err(Problem::new(format!("{flag} with --recipe distill"))
            .hint("the model learns in the numbers that it has: make it smaller afterwards")
            .into());
    }
    let quoted = |path: &Path| {
        let text = python(&path.display().to_string());
        // What stands between its quotes.
        text[1..text.len() - 1].to_owned()
    };
    let text = DISTILL.replace("@TEACHER@", &quoted(teacher));
    Ok(text.replace("@STUDENT@", &quoted(model)))
}

/// The scheme of LLM Compressor, and where what it makes lies.
fn scheme(
    form: Option<Form>,
    recipe: RecipeName,
    asymmetric: bool,
) -> anyhow::Result<&'static str> {
    let wrong = |expected: &str| {
        let said = form.map_or("", Form::name);
        Problem::new(format!("--to {said} with --recipe {}", recipe.name()))
            .hint(format!("expected {expected}"))
    };
    Ok(match (recipe, form) {
        (RecipeName::Distill, _) => return Err(wrong("no --to").into()),
        (RecipeName::Smoothquant, None)
        | (RecipeName::Smoothquant | RecipeName::Gptq, Some(Form::Int8)) => "W8A8",
        (RecipeName::Smoothquant, Some(_)) => {
            return Err(wrong(
                "--to int8: it moves outliers of activations into weights, for both in INT8",
            )
            .into());
        }
        (_, None | Some(Form::Int4)) if asymmetric => "W4A16_ASYM",
        (_, None | Some(Form::Int4)) => "W4A16",
        (_, Some(Form::Int8W8a16)) => "W8A16",
        (RecipeName::Gptq, Some(Form::Nvfp4)) => "NVFP4A16",
        (_, Some(_)) => {
            return Err(wrong("--to int4 or int8-w8a16; gptq makes int8 and nvfp4 too").into());
        }
    })
}

/// Towers of images and sound, and what lies between them and the language model.
const TOWERS: &str = "re:.*(vision_tower|vision_model|visual|audio_tower|multi_modal_projector).*";

fn script(model: &Path, make: &MakeFlags, recipe: RecipeName) -> anyhow::Result<String> {
    let scheme = scheme(make.to, recipe, make.asymmetric)?;
    if make.scales.is_some() {
        return Err(Problem::new("--scales with --recipe")
            .hint("the scheme says it: leave it out, or edit the script")
            .into());
    }
    let mut ignored = vec![
        "lm_head".to_owned(),
        "re:.*router".into(),
        "re:.*mlp.gate$".into(),
    ];
    if !make.towers {
        ignored.push(TOWERS.into());
    }
    // A part of a name, with what stands around it; its own signs are no pattern.
    ignored.extend(
        make.keep
            .iter()
            .map(|part| format!("re:.*{}.*", escaped(part))),
    );
    let ignored: Vec<String> = ignored.iter().map(|one| python(one)).collect();
    let ignored = ignored.join(", ");
    let (imports, modifiers) = match recipe {
        RecipeName::Gptq => (
            "from llmcompressor.modifiers.quantization import GPTQModifier",
            format!("    GPTQModifier(targets=\"Linear\", scheme={scheme:?}, ignore=IGNORED),\n"),
        ),
        RecipeName::Awq => (
            "from llmcompressor.modifiers.quantization import QuantizationModifier\n\
             from llmcompressor.modifiers.transform.awq import AWQModifier",
            format!(
                "    AWQModifier(),\n    QuantizationModifier(targets=\"Linear\", scheme={scheme:?}, ignore=IGNORED),\n"
            ),
        ),
        RecipeName::Distill => ("", String::new()),
        RecipeName::Smoothquant => (
            "from llmcompressor.modifiers.quantization import GPTQModifier\n\
             from llmcompressor.modifiers.transform.smoothquant import SmoothQuantModifier",
            format!(
                "    SmoothQuantModifier(smoothing_strength=0.8),\n    GPTQModifier(targets=\"Linear\", scheme={scheme:?}, ignore=IGNORED),\n"
            ),
        ),
    };
    let name = model
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let written = format!(
        "{}-{}",
        name.unwrap_or_else(|| "model".into()),
        scheme.to_lowercase()
    );
    let mut out = String::new();
    let _ = write!(
        out,
        "\"\"\"{} of {}, by LLM Compressor with {} (written by gpuwise).\"\"\"\n\n\
         from datasets import load_dataset\n\
         from llmcompressor import oneshot\n\
         {imports}\n\
         from transformers import AutoModelForCausalLM, AutoTokenizer\n\n\
         MODEL = {}\n\
         WRITTEN = {}\n\
         # Text as the model will see it calibrates best: put your own prompts here.\n\
         DATASET, SPLIT = \"HuggingFaceH4/ultrachat_200k\", \"train_sft\"\n\
         SAMPLES, TOKENS = {SAMPLES}, {TOKENS}\n\
         # Head and routers stay: small, and what they decide is felt at once.\n\
         IGNORED = [{ignored}]\n\n\
         model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=\"auto\")\n\
         tokenizer = AutoTokenizer.from_pretrained(MODEL)\n\n\n\
         def tokens(sample):\n    \
             text = tokenizer.apply_chat_template(sample[\"messages\"], tokenize=False)\n    \
             return tokenizer(text, max_length=TOKENS, truncation=True, add_special_tokens=False)\n\n\n\
         data = load_dataset(DATASET, split=f\"{{SPLIT}}[:{{SAMPLES}}]\").shuffle(seed=42)\n\
         data = data.map(tokens, remove_columns=data.column_names)\n\n\
         recipe = [\n{modifiers}]\n\
         oneshot(\n    \
             model=model,\n    \
             dataset=data,\n    \
             recipe=recipe,\n    \
             max_seq_length=TOKENS,\n    \
             num_calibration_samples=SAMPLES,\n\
         )\n\
         model.save_pretrained(WRITTEN, save_compressed=True)\n\
         tokenizer.save_pretrained(WRITTEN)\n",
        scheme,
        model.display(),
        recipe.name(),
        python(&model.display().to_string()),
        python(&written),
    );
    Ok(out)
}

/// Samples and tokens of each, as LLM Compressor's own examples have them.
const SAMPLES: u32 = 512;
const TOKENS: u32 = 2048;

/// A text as Python writes it.
fn python(text: &str) -> String {
    // JSON's escapes are Python's too.
    serde_json::Value::from(text).to_string()
}

/// A text that a regular expression takes as it is.
pub(super) fn escaped(text: &str) -> String {
    let special = |sign: char| !(sign.is_alphanumeric() || sign == '_');
    let mut out = String::new();
    for sign in text.chars() {
        if special(sign) {
            out.push('\\');
        }
        out.push(sign);
    }
    out
}
