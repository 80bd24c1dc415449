//! Running the binary in a folder of its own, and models made for it.

use serde_json::{Map, Value, json};
use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use tempfile::TempDir;

/// A folder that is home and working directory of the commands run in it.
pub(crate) struct Place {
    folder: TempDir,
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self {
            folder: TempDir::new().expect("a folder"),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(&path, text).expect("a file that can be written");
        path
    }

    /// The binary without anything of this machine's user, and without the network.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.online(arguments);
        command.arg("--offline");
        command
    }

    /// The same, allowed to use the network.
    pub(crate) fn online(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpuwise"));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        let cleared = [
            "GPUWISE_CATALOGUE",
            "HF_HUB_CACHE",
            "HUGGINGFACE_HUB_CACHE",
            "HF_HOME",
            "HF_TOKEN",
            "HF_ENDPOINT",
            "XDG_CACHE_HOME",
            "XDG_CONFIG_HOME",
            "XDG_DATA_HOME",
            "GPUWISE_DATABASE",
            "NO_COLOR",
            "COLUMNS",
            "RUST_BACKTRACE",
        ];
        for name in cleared {
            command.env_remove(name);
        }
        command.env("HOME", self.folder.path());
        // What a command says of today does not depend on when tests run.
        command.env("SOURCE_DATE_EPOCH", "1795305600");
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        ran(&mut self.command(arguments))
    }

    /// What a command prints as JSON.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let ran = self.run(&[arguments, &["--format", "json"]].concat());
        assert!(ran.err.is_empty(), "{arguments:?}: {}", ran.err);
        serde_json::from_str(&ran.out)
            .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {}", ran.out))
    }

    /// Names of the files in the folder.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).expect("a folder");
        let mut names: Vec<String> = entries
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        names.sort();
        names
    }
}

pub(crate) fn ran(command: &mut Command) -> Ran {
    let output = command.output().expect("the binary runs");
    Ran {
        code: output.status.code().expect("an exit code"),
        out: String::from_utf8(output.stdout).expect("text"),
        err: String::from_utf8(output.stderr).expect("text"),
    }
}

/// A shape small enough to sum by hand.
pub(crate) fn config() -> Map<String, Value> {
    let Value::Object(config) = json!({
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "intermediate_size": 512,
        "vocab_size": 1000,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": false,
        "torch_dtype": "bfloat16"
    }) else {
        unreachable!()
    };
    config
}

pub(crate) fn config_text(change: impl FnOnce(&mut Map<String, Value>)) -> String {
    let mut config = config();
    change(&mut config);
    Value::Object(config).to_string()
}

/// Names and shapes of the tensors of [`config`], layers in `layers`, and what stands outside where
/// `outside`.
pub(crate) fn tensors(layers: std::ops::Range<u64>, outside: bool) -> Vec<(String, Vec<u64>)> {
    let (hidden, kv, width, vocabulary) = (256, 64, 512, 1000);
    let mut all = Vec::new();
    for layer in layers {
        for (name, shape) in [
            ("self_attn.q_proj", vec![hidden, hidden]),
            ("self_attn.k_proj", vec![kv, hidden]),
            ("self_attn.v_proj", vec![kv, hidden]),
            ("self_attn.o_proj", vec![hidden, hidden]),
            ("mlp.gate_proj", vec![width, hidden]),
            ("mlp.up_proj", vec![width, hidden]),
            ("mlp.down_proj", vec![hidden, width]),
            ("input_layernorm", vec![hidden]),
            ("post_attention_layernorm", vec![hidden]),
        ] {
            all.push((format!("model.layers.{layer}.{name}.weight"), shape));
        }
    }
    if outside {
        all.push(("model.embed_tokens.weight".into(), vec![vocabulary, hidden]));
        all.push(("model.norm.weight".into(), vec![hidden]));
        all.push(("lm_head.weight".into(), vec![vocabulary, hidden]));
    }
    all
}

pub(crate) fn elements(tensors: &[(String, Vec<u64>)]) -> u64 {
    tensors
        .iter()
        .map(|(_, shape)| shape.iter().product::<u64>())
        .sum()
}

/// The header of a safetensors file with these tensors in BF16, and the bytes that follow it.
pub(crate) fn header(tensors: &[(String, Vec<u64>)]) -> (Vec<u8>, u64) {
    let mut at = 0;
    let mut fields = Map::new();
    for (name, shape) in tensors {
        let bytes = 2 * shape.iter().product::<u64>();
        fields.insert(
            name.clone(),
            json!({"dtype": "BF16", "shape": shape, "data_offsets": [at, at + bytes]}),
        );
        at += bytes;
    }
    (Value::Object(fields).to_string().into_bytes(), at)
}

/// A file with a header and a hole where its tensors would be.
pub(crate) fn safetensors(path: &Path, tensors: &[(String, Vec<u64>)]) {
    let (header, data) = header(tensors);
    let mut file = File::create(path).expect("a file");
    file.write_all(&(header.len() as u64).to_le_bytes())
        .expect("written");
    file.write_all(&header).expect("written");
    file.set_len(8 + header.len() as u64 + data)
        .expect("a sparse file");
}

/// A GGUF file of [`config`]'s shape in F16: `part` of `parts`, counted from 0, with these tensors.
pub(crate) fn gguf(path: &Path, tensors: &[(String, Vec<u64>)], part: Option<(u16, u16)>) {
    let text = |out: &mut Vec<u8>, text: &str| {
        out.extend((text.len() as u64).to_le_bytes());
        out.extend(text.as_bytes());
    };
    let mut entries = Vec::new();
    let mut count = 0_u64;
    let mut entry = |key: &str, kind: u32, value: &[u8]| {
        text(&mut entries, key);
        entries.extend(kind.to_le_bytes());
        entries.extend(value);
        count += 1;
    };
    if part.is_none_or(|(number, _)| number == 0) {
        let mut name = Vec::new();
        text(&mut name, "llama");
        entry("general.architecture", 8, &name);
        for (key, value) in [
            ("block_count", 2_u32),
            ("context_length", 4096),
            ("embedding_length", 256),
            ("feed_forward_length", 512),
            ("attention.head_count", 8),
            ("attention.head_count_kv", 2),
            ("vocab_size", 1000),
        ] {
            entry(&format!("llama.{key}"), 4, &value.to_le_bytes());
        }
    }
    if let Some((number, parts)) = part {
        entry("split.no", 2, &number.to_le_bytes());
        entry("split.count", 2, &parts.to_le_bytes());
    }
    let mut described = Vec::new();
    let mut at = 0_u64;
    for (name, shape) in tensors {
        text(&mut described, name);
        described.extend((shape.len() as u32).to_le_bytes());
        for dimension in shape.iter().rev() {
            described.extend(dimension.to_le_bytes());
        }
        // F16 matrices, F32 vectors, as the converter writes them.
        let (kind, bytes) = if shape.len() > 1 { (1_u32, 2) } else { (0, 4) };
        described.extend(kind.to_le_bytes());
        described.extend(at.to_le_bytes());
        at += (bytes * shape.iter().product::<u64>()).div_ceil(32) * 32;
    }
    let mut bytes = b"GGUF".to_vec();
    bytes.extend(3_u32.to_le_bytes());
    bytes.extend((tensors.len() as u64).to_le_bytes());
    bytes.extend(count.to_le_bytes());
    bytes.extend(entries);
    bytes.extend(described);
    let data = (bytes.len() as u64).div_ceil(32) * 32;
    let mut file = File::create(path).expect("a file");
    file.write_all(&bytes).expect("written");
    file.set_len(data + at).expect("a sparse file");
}

/// The names that llama.cpp gives the tensors of Hugging Face.
pub(crate) fn ggml_name(name: &str) -> String {
    let mut name = name.replace("model.layers.", "blk.");
    for (theirs, own) in [
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("self_attn.o_proj", "attn_output"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", "ffn_norm"),
        ("model.embed_tokens", "token_embd"),
        ("model.norm", "output_norm"),
        ("lm_head", "output"),
    ] {
        name = name.replace(theirs, own);
    }
    name
}
