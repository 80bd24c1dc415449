//! Headers of safetensors files: valid, hostile, cut short.

use gpuwise_read::safetensors::{Header, LARGEST_HEADER, header_span, read_header, read_index};
use proptest::prelude::*;

/// A header of three tensors over 44 bytes, with metadata.
const VALID: &str = r#"{"__metadata__":{"format":"pt"},"a.weight":{"dtype":"BF16","shape":[4,4],"data_offsets":[0,32]},"b":{"dtype":"F32","shape":[],"data_offsets":[32,36]},"c":{"dtype":"F8_E4M3","shape":[2,4],"data_offsets":[36,44]}}"#;

fn said(header: &Result<Header, impl std::fmt::Display>) -> String {
    match header {
        Ok(header) => header
            .tensors
            .iter()
            .map(|t| format!("{} {} {:?} {}", t.name, t.format.name, t.shape, t.bytes))
            .collect::<Vec<_>>()
            .join("; "),
        Err(error) => format!("error: {error}"),
    }
}

#[track_caller]
fn check(json: &str, data_length: u64, expect: &str) {
    let got = said(&read_header(json.as_bytes(), data_length));
    assert!(got.starts_with(expect), "got: {got}\nexpected: {expect}");
}

/// One tensor `t` with these fields.
#[track_caller]
fn check_one(fields: &str, data_length: u64, expect: &str) {
    check(&format!(r#"{{"t":{{{fields}}}}}"#), data_length, expect);
}

#[test]
fn valid_headers() {
    check(
        VALID,
        44,
        "a.weight bf16 [4, 4] 32; b fp32 [] 4; c fp8 [2, 4] 8",
    );
    check("{}", 0, "");
    check(
        "{\"t\":{\"dtype\":\"F16\",\"shape\":[0,7],\"data_offsets\":[0,0]}}    ",
        0,
        "t fp16 [0, 7] 0",
    );
    let header = read_header(VALID.as_bytes(), 44).expect("it is valid");
    assert_eq!(header.metadata, [("format".to_string(), "pt".to_string())]);
    for (dtype, shape, bytes) in [
        ("F64", "[3]", 24),
        ("I64", "[3]", 24),
        ("U64", "[3]", 24),
        ("C64", "[3]", 24),
        ("I32", "[3]", 12),
        ("U32", "[3]", 12),
        ("U16", "[3]", 6),
        ("I16", "[3]", 6),
        ("U8", "[3]", 3),
        ("I8", "[3]", 3),
        ("BOOL", "[3]", 3),
        ("F8_E5M2", "[3]", 3),
        ("F8_E8M0", "[3]", 3),
        ("F8_E4M3FNUZ", "[3]", 3),
        ("F4", "[2,32]", 32),
        ("F6_E3M2", "[4,4]", 12),
    ] {
        check_one(
            &format!(r#""dtype":"{dtype}","shape":{shape},"data_offsets":[0,{bytes}]"#),
            bytes,
            "t ",
        );
    }
}

#[test]
fn places_in_any_order_of_names() {
    let json = r#"{"z":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"a":{"dtype":"U8","shape":[3],"data_offsets":[2,5]}}"#;
    check(json, 5, "z u8 [2] 2; a u8 [3] 3");
    let json = r#"{"a":{"dtype":"U8","shape":[3],"data_offsets":[2,5]},"z":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}"#;
    check(json, 5, "a u8 [3] 3; z u8 [2] 2");
}

#[test]
fn hostile_headers() {
    check("[]", 0, "error: not a safetensors header: byte 0");
    check(" {}", 0, "error: not a safetensors header: byte 0");
    check("", 0, "error: not a safetensors header: byte 0");
    check(
        "{\"t\":1}",
        0,
        "error: not a safetensors header: tensor `t`: invalid type",
    );
    check("{} x", 0, "error: not a safetensors header: trailing");
    let twice = r#"{"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#;
    check(twice, 1, "error: tensor `t` stands twice");
    check(
        r#"{"__metadata__":{},"__metadata__":{}}"#,
        0,
        "error: not a safetensors header: `__metadata__` stands twice",
    );
    check(
        r#"{"__metadata__":{"a":"1","a":"2"}}"#,
        0,
        "error: not a safetensors header: `__metadata__.a` stands twice",
    );
}

#[test]
fn hostile_tensors() {
    check_one(
        r#""dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]"#,
        1,
        "error: not a safetensors header: tensor `t`: duplicate field",
    );
    check_one(
        r#""dtype":"F3","shape":[1],"data_offsets":[0,1]"#,
        1,
        "error: tensor `t`: unknown dtype \"F3\"",
    );
    check_one(
        r#""dtype":"U8","shape":[-1],"data_offsets":[0,1]"#,
        1,
        "error: not a safetensors header: tensor `t`",
    );
    check_one(
        r#""dtype":"U8","shape":[1.5],"data_offsets":[0,1]"#,
        1,
        "error: not a safetensors header: tensor `t`",
    );
    check_one(
        r#""dtype":"U8","shape":[1],"data_offsets":[0,2]"#,
        2,
        "error: tensor `t`: its shape makes 1 bytes, its data_offsets 2",
    );
    check_one(
        r#""dtype":"U8","shape":[1],"data_offsets":[1,0]"#,
        1,
        "error: tensor `t`: data_offsets [1, 0] are not in order",
    );
    check_one(
        r#""dtype":"U8","shape":[1],"data_offsets":[0]"#,
        1,
        "error: not a safetensors header",
    );
    check_one(
        r#""dtype":"U8","shape":[1],"data_offsets":[0,1]"#,
        0,
        "error: the header describes 1 bytes of tensors, the file holds 0",
    );
    check_one(
        r#""dtype":"U8","shape":[1],"data_offsets":[0,1]"#,
        9,
        "error: the header describes 1 bytes of tensors, the file holds 9",
    );
    check_one(
        r#""dtype":"U8","shape":[1],"data_offsets":[4,5]"#,
        5,
        "error: tensor `t` begins at byte 4 of the data, the tensors before it end at 0",
    );
    check_one(
        r#""dtype":"F4","shape":[3],"data_offsets":[0,2]"#,
        2,
        "error: tensor `t`: its shape is impossible: 3 elements of fp4",
    );
    let two_63 = 1_u64 << 63;
    check_one(
        &format!(r#""dtype":"U8","shape":[{two_63},2],"data_offsets":[0,0]"#),
        0,
        "error: tensor `t`: its shape is impossible",
    );
    check_one(
        &format!(r#""dtype":"U8","shape":[{two_63},{two_63},0],"data_offsets":[0,0]"#),
        0,
        "error: tensor `t`: its shape is impossible",
    );
    check_one(
        &format!(r#""dtype":"F64","shape":[{two_63}],"data_offsets":[0,0]"#),
        0,
        "error: tensor `t`: its shape is impossible",
    );
    check_one(
        r#""dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,0]"#,
        0,
        "error: not a safetensors header",
    );
    let many = vec!["1"; 65].join(",");
    check_one(
        &format!(r#""dtype":"U8","shape":[{many}],"data_offsets":[0,1]"#),
        1,
        "error: tensor `t`: its shape is impossible: 65 dimensions",
    );
    let deep = format!(r#"{{"t":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    check(&deep, 0, "error: not a safetensors header");
    let deep = format!(
        r#"{{"t":{{"x":{}{},"dtype":"U8","shape":[],"data_offsets":[0,1]}}}}"#,
        "[".repeat(1_000),
        "]".repeat(1_000)
    );
    // A field that is not read may nest as it likes; what matters is that nothing overflows.
    let _ = read_header(deep.as_bytes(), 1);
}

#[test]
fn overlapping_tensors_are_refused() {
    let json = r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}}"#;
    check(
        json,
        6,
        "error: tensor `b` begins at byte 2 of the data, the tensors before it end at 4",
    );
}

#[test]
fn spans_of_the_header() {
    let span = |length: u64, file: u64| header_span(length.to_le_bytes(), file);
    assert_eq!(span(100, 108), Ok(100));
    assert_eq!(span(0, 8), Ok(0));
    assert!(span(101, 108).is_err());
    assert!(span(0, 7).is_err());
    assert!(span(LARGEST_HEADER, u64::MAX).is_ok());
    assert!(span(LARGEST_HEADER + 1, u64::MAX).is_err());
    assert!(span(u64::MAX, u64::MAX).is_err());
    let page = header_span(*b"<!DOCTYP", 5_000).expect_err("a web page is no safetensors file");
    assert!(
        page.to_string().contains("probably no safetensors file"),
        "{page}"
    );
}

#[test]
fn every_prefix_is_an_error() {
    for length in 0..VALID.len() {
        assert!(
            read_header(&VALID.as_bytes()[..length], 44).is_err(),
            "{length}"
        );
    }
}

#[test]
fn indices() {
    let index = read_index(
        r#"{"metadata":{"total_size":16060522496},"weight_map":{"lm_head.weight":"model-00002-of-00002.safetensors","a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}"#,
    )
    .expect("it is valid");
    assert_eq!(
        index.files,
        [
            "model-00002-of-00002.safetensors",
            "model-00001-of-00002.safetensors"
        ]
    );
    assert_eq!((index.tensors, index.total_size), (3, Some(16_060_522_496)));
    assert_eq!(
        read_index(r#"{"weight_map":{}}"#)
            .expect("no metadata")
            .total_size,
        None
    );
    assert_eq!(
        read_index(r#"{"metadata":{"total_size":2.0},"weight_map":{}}"#)
            .expect("a real")
            .total_size,
        Some(2)
    );
    for (hostile, expect) in [
        ("", "not a safetensors header"),
        (
            "{}",
            "not a safetensors header: line 1: missing field `weight_map`",
        ),
        (
            r#"{"weight_map":{"a":1}}"#,
            "not a safetensors header: line 1: invalid type",
        ),
        (
            r#"{"weight_map":{"a":"../../etc/passwd"}}"#,
            "not a safetensors header: `weight_map` names the file",
        ),
        (
            r#"{"weight_map":{"a":"/etc/passwd"}}"#,
            "not a safetensors header: `weight_map` names the file",
        ),
        (
            r#"{"weight_map":{"a":"C:x"}}"#,
            "not a safetensors header: `weight_map` names the file",
        ),
        (
            r#"{"weight_map":{"a":".."}}"#,
            "not a safetensors header: `weight_map` names the file",
        ),
        (
            r#"{"metadata":{"total_size":-1},"weight_map":{}}"#,
            "not a safetensors header: `metadata.total_size` is -1",
        ),
    ] {
        let error = read_index(hostile).expect_err(hostile).to_string();
        assert!(error.starts_with(expect), "{hostile}: {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn random_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), length: u64, first: [u8; 8]) {
        let _ = read_header(&bytes, length);
        let _ = header_span(first, length);
        let _ = read_index(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn mutated_headers_do_not_panic(at in 0..VALID.len(), byte: u8, cut in 0..VALID.len(), length in 0_u64..100) {
        let mut bytes = VALID.as_bytes().to_vec();
        bytes[at] = byte;
        if let Ok(header) = read_header(&bytes, length) {
            prop_assert_eq!(header.tensors.iter().map(|t| t.bytes).sum::<u64>(), length);
        }
        bytes.truncate(cut);
        prop_assert!(read_header(&bytes, length).is_err() || cut >= VALID.len());
    }
}
