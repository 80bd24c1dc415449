//! Headers of GGUF files: valid, hostile, cut short, and what models they describe.

use gpuwise_domain::{model::Role, precision::WeightFormat};
use gpuwise_read::{
    gguf::{GgufError, GgufHeader, GgufValue, architecture, read_header},
    stored::with_gguf,
};
use proptest::prelude::*;

/// Writes headers as llama.cpp does.
#[derive(Clone)]
pub(crate) struct Writer {
    version: u32,
    alignment: u64,
    entries: Vec<u8>,
    entry_count: u64,
    tensors: Vec<u8>,
    tensor_count: u64,
    data: u64,
}

impl Writer {
    pub(crate) fn new() -> Self {
        Self {
            version: 3,
            alignment: 32,
            entries: Vec::new(),
            entry_count: 0,
            tensors: Vec::new(),
            tensor_count: 0,
            data: 0,
        }
    }

    fn text(out: &mut Vec<u8>, text: &str) {
        out.extend((text.len() as u64).to_le_bytes());
        out.extend(text.as_bytes());
    }

    /// An entry of any type with its bytes.
    pub(crate) fn entry(mut self, key: &str, kind: u32, value: &[u8]) -> Self {
        Self::text(&mut self.entries, key);
        self.entries.extend(kind.to_le_bytes());
        self.entries.extend(value);
        self.entry_count += 1;
        self
    }

    pub(crate) fn say(self, key: &str, text: &str) -> Self {
        let mut value = Vec::new();
        Self::text(&mut value, text);
        self.entry(key, 8, &value)
    }

    pub(crate) fn count(self, key: &str, count: u32) -> Self {
        self.entry(key, 4, &count.to_le_bytes())
    }

    pub(crate) fn counts(self, key: &str, counts: &[u32]) -> Self {
        let items: Vec<u8> = counts
            .iter()
            .flat_map(|count| count.to_le_bytes())
            .collect();
        self.list(key, 4, counts.len() as u64, &items)
    }

    pub(crate) fn list(self, key: &str, kind: u32, length: u64, items: &[u8]) -> Self {
        let mut value = kind.to_le_bytes().to_vec();
        value.extend(length.to_le_bytes());
        value.extend(items);
        self.entry(key, 9, &value)
    }

    pub(crate) fn texts(self, key: &str, texts: &[&str]) -> Self {
        let mut items = Vec::new();
        for text in texts {
            Self::text(&mut items, text);
        }
        self.list(key, 8, texts.len() as u64, &items)
    }

    /// A tensor described as given, whatever that means.
    pub(crate) fn described(mut self, name: &str, shape: &[u64], kind: u32, offset: u64) -> Self {
        Self::text(&mut self.tensors, name);
        self.tensors.extend((shape.len() as u32).to_le_bytes());
        for dimension in shape {
            self.tensors.extend(dimension.to_le_bytes());
        }
        self.tensors.extend(kind.to_le_bytes());
        self.tensors.extend(offset.to_le_bytes());
        self.tensor_count += 1;
        self
    }

    /// A tensor of `bytes` bytes after the others; its shape innermost first.
    pub(crate) fn tensor(mut self, name: &str, shape: &[u64], kind: u32, bytes: u64) -> Self {
        let offset = self.data;
        self.data = (offset + bytes).div_ceil(self.alignment) * self.alignment;
        self.described(name, shape, kind, offset)
    }

    /// A tensor in single precision.
    pub(crate) fn float(self, name: &str, shape: &[u64]) -> Self {
        let elements: u64 = shape.iter().product();
        self.tensor(name, shape, 0, 4 * elements)
    }

    /// The header with its padding, and the length of the file.
    pub(crate) fn finish(&self) -> (Vec<u8>, u64) {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend(self.tensor_count.to_le_bytes());
        out.extend(self.entry_count.to_le_bytes());
        out.extend(&self.entries);
        out.extend(&self.tensors);
        out.resize(
            (out.len() as u64).div_ceil(self.alignment) as usize * self.alignment as usize,
            0,
        );
        let length = out.len() as u64 + self.data;
        (out, length)
    }

    pub(crate) fn read(&self) -> Result<GgufHeader, GgufError> {
        let (bytes, length) = self.finish();
        read_header(&bytes, length)
    }
}

/// A Llama of two layers: width 64, 4 heads of 16, 2 key-value heads, feed-forward 96, 40 tokens.
pub(crate) fn llama() -> Writer {
    let mut writer = Writer::new()
        .say("general.architecture", "llama")
        .count("llama.block_count", 2)
        .count("llama.context_length", 2048)
        .count("llama.embedding_length", 64)
        .count("llama.feed_forward_length", 96)
        .count("llama.attention.head_count", 4)
        .count("llama.attention.head_count_kv", 2)
        .count("llama.rope.dimension_count", 16)
        .texts("tokenizer.ggml.tokens", &["t"; 40])
        .float("token_embd.weight", &[64, 40])
        .float("output_norm.weight", &[64])
        .float("output.weight", &[64, 40]);
    for layer in 0..2 {
        for (name, shape) in [
            ("attn_norm", &[64][..]),
            ("attn_q", &[64, 64]),
            ("attn_k", &[64, 32]),
            ("attn_v", &[64, 32]),
            ("attn_output", &[64, 64]),
            ("ffn_norm", &[64]),
            ("ffn_gate", &[64, 96]),
            ("ffn_up", &[64, 96]),
            ("ffn_down", &[96, 64]),
        ] {
            writer = writer.float(&format!("blk.{layer}.{name}.weight"), shape);
        }
    }
    writer
}

/// Parameters of [`llama`]: tables, norms and layers.
const LLAMA_PARAMETERS: u64 =
    2 * 40 * 64 + 64 + 2 * (2 * 64 + 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96);

#[track_caller]
fn check(writer: &Writer, expect: &str) {
    let got = match writer.read() {
        Ok(header) => format!("{} tensors", header.tensors.len()),
        Err(error) => format!("error: {error}"),
    };
    assert!(got.starts_with(expect), "got: {got}\nexpected: {expect}");
}

#[test]
fn a_llama_is_read_exactly() {
    let header = llama().read().expect("it is valid");
    assert_eq!(
        (header.version, header.alignment, header.data_offset % 32),
        (3, 32, 0)
    );
    assert_eq!(
        header.value("tokenizer.ggml.tokens"),
        Some(&GgufValue::Skipped { length: 40 })
    );
    assert_eq!(header.tensor_bytes(), 4 * LLAMA_PARAMETERS);
    let embedding = &header.tensors[0];
    assert_eq!(
        (embedding.name.as_str(), embedding.shape.as_slice()),
        ("token_embd.weight", &[40, 64][..])
    );
    let shape = architecture(&header).expect("it is a Llama");
    assert_eq!(
        (
            shape.hidden,
            shape.vocabulary,
            shape.layer_count(),
            shape.tied_head
        ),
        (64, 40, 2, false)
    );
    assert_eq!(shape.parameters().0, LLAMA_PARAMETERS);
    assert_eq!(shape.cache_elements_per_token(), 2 * 2 * 2 * 16);
    let model = with_gguf(shape, &header);
    let stored = model
        .stored
        .as_ref()
        .expect("the header says what is stored");
    assert_eq!(
        (stored.total(), stored.elements),
        (4 * LLAMA_PARAMETERS, LLAMA_PARAMETERS)
    );
    assert_eq!(stored.bytes(Role::Head), Some(4 * 40 * 64));
    assert_eq!(stored.bytes(Role::Key), Some(4 * 2 * 64 * 32));
    assert_eq!(model.native, WeightFormat::F32);
    assert_eq!(model.assumptions, Vec::<String>::new());
}

#[test]
fn version_2_is_the_same() {
    let mut writer = llama();
    writer.version = 2;
    assert_eq!(writer.read().map(|header| header.version), Ok(2));
}

#[test]
fn other_files() {
    let magic = read_header(b"PK\x03\x04 and more", 1000).expect_err("a zip file is none");
    assert!(
        magic
            .to_string()
            .starts_with("not a GGUF file: it begins with the bytes [50, 4b, 03, 04]"),
        "{magic}"
    );
    for (version, expect) in [
        (1, "error: GGUF version 1 is not read"),
        (
            3_u32.swap_bytes(),
            "error: a big-endian GGUF file is not read",
        ),
        (4, "error: GGUF version 4 is not known"),
        (0, "error: GGUF version 0 is not known"),
    ] {
        let mut writer = llama();
        writer.version = version;
        check(&writer, expect);
    }
}

#[test]
fn hostile_headers() {
    let new = Writer::new;
    check(&new(), "0 tensors");
    check(
        &new().count("a", 1).count("a", 2),
        "error: byte 41: the key `a` stands twice",
    );
    check(
        &new().entry("a", 13, &[]),
        "error: byte 33: `a` has a value of type 13",
    );
    check(
        &new().list("a", 4, u64::MAX, &[]),
        "error: byte 49: a list needs the file to have",
    );
    check(
        &new().list("a", 4, 1 << 60, &[]),
        "error: byte 49: a list needs the file to have",
    );
    check(
        &new().list("a", 8, 1 << 40, &[]),
        "error: byte 49: a list needs the file to have",
    );
    let mut nested = Vec::new();
    for _ in 0..6 {
        nested.extend(9_u32.to_le_bytes());
        nested.extend(1_u64.to_le_bytes());
    }
    nested.extend([0; 12]);
    check(
        &new().entry("a", 9, &nested),
        "error: byte 85: `a` nests lists more than 4 deep",
    );
    check(
        &new().entry("a", 8, &u64::MAX.to_le_bytes()),
        "error: byte 45: a text needs the file",
    );
    check(
        &new().count("general.alignment", 0),
        "error: byte 57: `general.alignment` is 0",
    );
    check(
        &new().count("general.alignment", 48),
        "error: byte 57: `general.alignment` is 48",
    );
    check(
        &new().say("general.alignment", "x"),
        "error: byte 62: `general.alignment` is \"x\"",
    );
}

#[test]
fn hostile_tensors() {
    let new = Writer::new;
    check(
        &new().described("t", &[1; 5], 0, 0),
        "error: tensor `t`: 5 dimensions",
    );
    check(
        &new().described("t", &[1 << 63, 2], 0, 0),
        "error: tensor `t`: its shape [9223372036854775808, 2] has more than 2^64 elements",
    );
    check(
        &new().described("t", &[1 << 62], 28, 0),
        "error: tensor `t`: its shape [4611686018427387904] has more than 2^64 bytes",
    );
    check(
        &new().described("t", &[1 << 40], 0, 0),
        "error: tensor `t`: its 4398046511104 bytes from byte 0 of the data end after the 0 bytes",
    );
    check(
        &new().described("t", &[4], 0, u64::MAX - 31),
        "error: tensor `t`: its 16 bytes",
    );
    check(
        &new().tensor("t", &[33], 2, 32),
        "error: tensor `t`: rows of 33 elements are no multiple of the 32 of a block of q4_0",
    );
    check(
        &new().tensor("t", &[32], 4, 32),
        "error: tensor `t`: ggml type 4 was removed",
    );
    check(
        &new().tensor("t", &[32], 37, 32),
        "error: tensor `t`: ggml type 37 was removed",
    );
    check(
        &new().tensor("t", &[32], 97, 32),
        "error: tensor `t`: ggml type 97 is not known",
    );
    check(
        &new().float("t", &[8]).float("t", &[8]),
        "error: tensor `t`: its name stands twice",
    );
    let mut unaligned = new().described("t", &[4], 0, 8);
    unaligned.data = 64;
    check(
        &unaligned,
        "error: tensor `t`: offset 8 is no multiple of the alignment 32",
    );
    let mut overlapping = new()
        .described("t", &[16], 0, 0)
        .described("u", &[4], 0, 32);
    overlapping.data = 64;
    check(
        &overlapping,
        "error: tensor `u`: it begins at byte 32 of the data, the tensors before it end at 64",
    );
}

#[test]
fn hostile_counts_and_names() {
    let new = Writer::new;
    let mut counts = new();
    counts.tensor_count = u64::MAX;
    check(&counts, "error: byte 8: 18446744073709551615 tensors");
    let mut counts = new();
    counts.entry_count = 1 << 40;
    check(&counts, "error: byte 16: 1099511627776 metadata entries");
    let long = "k".repeat(70_000);
    check(
        &new().count(&long, 1),
        "error: byte 24: a metadata key of 70000 bytes",
    );
    let (mut bytes, length) = new().count("ab", 1).finish();
    bytes[32] = 0xff;
    assert_eq!(
        read_header(&bytes, length),
        Err(GgufError::Wrong {
            offset: 24,
            problem: "a metadata key is not UTF-8".into()
        })
    );
}

#[test]
fn a_file_cut_short() {
    let (bytes, length) = llama().finish();
    let cut = read_header(&bytes, length - 1).expect_err("the last tensor does not fit");
    assert!(cut.to_string().ends_with("the file is cut short"), "{cut}");
    let within = read_header(&bytes[..500], 500).expect_err("the header does not fit");
    assert!(
        matches!(within, GgufError::CutShort { file: 500, .. }),
        "{within}"
    );
}

/// Every prefix asks for more, and more than it has; following its wishes ends at the header.
#[test]
fn prefixes_ask_for_more() {
    let (bytes, length) = llama().finish();
    let header = read_header(&bytes, length).expect("it is valid");
    let without_padding = (0..=bytes.len()).find(|end| read_header(&bytes[..*end], length).is_ok());
    let end = without_padding.expect("the whole is enough");
    for given in 0..end {
        match read_header(&bytes[..given], length) {
            Err(GgufError::NeedMore(needed)) => assert!(
                (given as u64) < needed && needed <= end as u64,
                "{given}: {needed}"
            ),
            other => panic!("{given}: {other:?}"),
        }
    }
    let mut given = 0;
    let mut steps = 0;
    while let Err(GgufError::NeedMore(needed)) = read_header(&bytes[..given], length) {
        given = (needed.max(2 * given as u64) as usize).min(bytes.len());
        steps += 1;
    }
    assert!(steps < 20);
    assert_eq!(read_header(&bytes[..given], length), Ok(header));
}

#[test]
fn values_keep_their_kind() {
    let header = Writer::new()
        .entry("u8", 0, &[200])
        .entry("i8", 1, &[0xfe])
        .entry("i16", 3, &(-300_i16).to_le_bytes())
        .entry("f32", 6, &1.5_f32.to_le_bytes())
        .entry("yes", 7, &[1])
        .entry("u64", 10, &u64::MAX.to_le_bytes())
        .entry("i64", 11, &i64::MIN.to_le_bytes())
        .entry("f64", 12, &f64::NAN.to_le_bytes())
        .entry("bad", 8, &[2, 0, 0, 0, 0, 0, 0, 0, 0xff, b'x'])
        .counts("list", &[1, 2, 3])
        .list("long", 0, 2000, &[7; 2000])
        .texts("tags", &["a", "b"])
        .read()
        .expect("it is valid");
    assert_eq!(header.value("u8"), Some(&GgufValue::Unsigned(200)));
    assert_eq!(header.value("i8"), Some(&GgufValue::Signed(-2)));
    assert_eq!(header.value("i16"), Some(&GgufValue::Signed(-300)));
    assert_eq!(header.value("f32"), Some(&GgufValue::Real(1.5)));
    assert_eq!(header.value("yes"), Some(&GgufValue::Flag(true)));
    assert_eq!(header.count("u64"), Some(u64::MAX));
    assert_eq!(header.value("i64"), Some(&GgufValue::Signed(i64::MIN)));
    assert!(matches!(header.value("f64"), Some(GgufValue::Real(real)) if real.is_nan()));
    assert_eq!(header.text("bad"), Some("\u{fffd}x"));
    assert_eq!(
        header.value("list").and_then(GgufValue::counts),
        Some(vec![1, 2, 3])
    );
    assert_eq!(
        header.value("long"),
        Some(&GgufValue::Skipped { length: 2000 })
    );
    assert_eq!(header.value("tags").and_then(GgufValue::length), Some(2));
}

#[test]
fn formats_have_the_sizes_of_ggml() {
    // Type, elements, bytes: as gguf 0.19 has them.
    for (kind, elements, bytes) in [
        (0, 1, 4),
        (1, 1, 2),
        (2, 32, 18),
        (3, 32, 20),
        (6, 32, 22),
        (7, 32, 24),
        (8, 32, 34),
        (10, 256, 84),
        (11, 256, 110),
        (12, 256, 144),
        (13, 256, 176),
        (14, 256, 210),
        (15, 256, 292),
        (16, 256, 66),
        (17, 256, 74),
        (18, 256, 98),
        (19, 256, 50),
        (20, 32, 18),
        (21, 256, 110),
        (22, 256, 82),
        (23, 256, 136),
        (24, 1, 1),
        (25, 1, 2),
        (26, 1, 4),
        (27, 1, 8),
        (28, 1, 8),
        (29, 256, 56),
        (30, 1, 2),
        (34, 256, 54),
        (35, 256, 66),
        (39, 32, 17),
        (40, 64, 36),
        (41, 128, 18),
    ] {
        let header = Writer::new()
            .tensor("t", &[elements, 3], kind, 3 * bytes)
            .read()
            .expect("a known type");
        assert_eq!(header.tensors[0].bytes, 3 * bytes, "type {kind}");
    }
}

#[test]
fn split_files_are_joined() {
    let part = |number: u16, name: &str| {
        Writer::new()
            .say("general.architecture", "llama")
            .entry("split.no", 2, &number.to_le_bytes())
            .entry("split.count", 2, &2_u16.to_le_bytes())
            .float(name, &[8])
            .read()
            .expect("it is valid")
    };
    let mut first = part(0, "a");
    let alone = architecture(&first)
        .expect_err("half a model is none")
        .to_string();
    assert!(
        alone.starts_with("this is part 1 of 2 of a split file"),
        "{alone}"
    );
    assert!(first.clone().append(part(0, "b")).is_err());
    assert!(first.clone().append(part(1, "a")).is_err());
    assert_eq!(first.append(part(1, "b")), Ok(()));
    assert_eq!((first.part(), first.tensors.len()), (Some((1, 2)), 2));
    assert!(first.append(part(1, "c")).is_err());
}

#[test]
fn files_that_hold_no_language_model() {
    let error = |writer: Writer| {
        architecture(&writer.read().expect("it is valid"))
            .expect_err("it is none")
            .to_string()
    };
    assert_eq!(
        error(Writer::new()),
        "`general.architecture` is missing: the header does not say what the model is"
    );
    assert!(
        error(Writer::new().say("general.architecture", "clip"))
            .contains("a vision or audio tower")
    );
    assert!(error(Writer::new().say("general.architecture", "bert")).contains("an encoder"));
    assert!(
        error(
            Writer::new()
                .say("general.architecture", "llama")
                .say("general.type", "adapter")
        )
        .contains("an adapter")
    );
    assert_eq!(
        error(Writer::new().say("general.architecture", "llama")),
        "`llama.block_count` is missing"
    );
    let no_width = Writer::new()
        .say("general.architecture", "llama")
        .count("llama.block_count", 1);
    assert_eq!(error(no_width), "`llama.embedding_length` is missing");
    let many = Writer::new()
        .say("general.architecture", "llama")
        .count("llama.block_count", u32::MAX);
    assert_eq!(
        error(many),
        "`llama.block_count` is 4294967295; no model has more than 4096 layers"
    );
    let zero = Writer::new()
        .say("general.architecture", "llama")
        .count("llama.block_count", 0);
    assert_eq!(error(zero), "`llama.block_count` is missing");
}

#[test]
fn unknown_architectures_are_read_like_llama_and_say_so() {
    let header = Writer::new()
        .say("general.architecture", "novel")
        .count("novel.block_count", 3)
        .count("novel.embedding_length", 64)
        .count("novel.feed_forward_length", 96)
        .count("novel.attention.head_count", 4)
        .count("novel.vocab_size", 50)
        .read()
        .expect("it is valid");
    let shape = architecture(&header).expect("the usual keys are there");
    assert_eq!(
        (shape.layer_count(), shape.vocabulary, shape.tied_head),
        (3, 50, true)
    );
    assert!(
        shape
            .assumptions
            .iter()
            .any(|said| said.contains("\"novel\" is not known")),
        "{:?}",
        shape.assumptions
    );
}

/// Latent attention in both forms in which llama.cpp has written it.
#[test]
fn latent_attention() {
    let common = || {
        Writer::new()
            .say("general.architecture", "deepseek2")
            .count("deepseek2.block_count", 3)
            .count("deepseek2.embedding_length", 256)
            .count("deepseek2.feed_forward_length", 512)
            .count("deepseek2.leading_dense_block_count", 1)
            .count("deepseek2.expert_feed_forward_length", 64)
            .count("deepseek2.expert_count", 8)
            .count("deepseek2.expert_used_count", 2)
            .count("deepseek2.expert_shared_count", 1)
            .count("deepseek2.vocab_size", 100)
            .count("deepseek2.attention.head_count", 4)
            .count("deepseek2.attention.kv_lora_rank", 32)
            .count("deepseek2.attention.q_lora_rank", 48)
            .count("deepseek2.rope.dimension_count", 8)
    };
    let old = common()
        .count("deepseek2.attention.head_count_kv", 4)
        .count("deepseek2.attention.key_length", 24)
        .count("deepseek2.attention.value_length", 16);
    let new = common()
        .count("deepseek2.attention.head_count_kv", 1)
        .count("deepseek2.attention.key_length", 40)
        .count("deepseek2.attention.value_length", 32)
        .count("deepseek2.attention.key_length_mla", 24)
        .count("deepseek2.attention.value_length_mla", 16);
    let shape = |writer: Writer| {
        architecture(&writer.read().expect("it is valid")).expect("it is a DeepSeek")
    };
    let (old, new) = (shape(old), shape(new));
    assert_eq!(old, new);
    assert_eq!(old.cache_elements_per_token(), 3 * (32 + 8));
    assert!(old.has_experts());
}

#[test]
fn layers_of_a_searched_architecture_may_lack_parts() {
    let header = Writer::new()
        .say("general.architecture", "deci")
        .count("deci.block_count", 3)
        .count("deci.embedding_length", 256)
        .counts("deci.feed_forward_length", &[512, 0, 1024])
        .counts("deci.attention.head_count", &[4, 4, 0])
        .counts("deci.attention.head_count_kv", &[2, 1, 0])
        .count("deci.vocab_size", 100)
        .read()
        .expect("it is valid");
    let shape = architecture(&header).expect("it is a searched Llama");
    assert_eq!(shape.layer_count(), 3);
    // Two layers keep a cache: of two heads, and of one.
    assert_eq!(shape.cache_elements_per_token(), 2 * 64 * (2 + 1));
    assert_eq!(
        shape.parameters_of(|role| role == Role::MlpDown).0,
        256 * (512 + 1024)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn random_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), length in 0_u64..400) {
        let mut header = b"GGUF\x03\0\0\0".to_vec();
        header.extend(&bytes);
        let _ = read_header(&bytes, length);
        let _ = read_header(&header, length);
    }

    #[test]
    fn mutated_headers_do_not_panic(changes in proptest::collection::vec((0_usize..2000, any::<u8>()), 1..4), cut in 0_usize..4000) {
        let (mut bytes, length) = llama().finish();
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        if let Ok(header) = read_header(&bytes, length)
            && let Ok(shape) = architecture(&header) {
            let model = with_gguf(shape, &header);
            prop_assert!(model.stored.is_some_and(|stored| stored.total() <= length));
        }
        bytes.truncate(cut);
        if let Err(GgufError::NeedMore(needed)) = read_header(&bytes, length) {
            prop_assert!(needed > bytes.len() as u64 && needed <= length);
        }
    }
}
