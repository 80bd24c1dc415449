//! Pickles: what is read, and what is refused.

use gpuwise_read::pickle::{Pickle, PickleError, Value};
use proptest::prelude::*;

/// `{'a': [1, -2, 2.5, None, True], 'b': ('x', 2**63)}`, protocol 4, as Python 3.11 writes it.
const SMALL: &[u8] = b"\x80\x04\x95\x34\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01a\x94]\x94(K\x01J\xfe\xff\xff\xff\
G@\x04\x00\x00\x00\x00\x00\x00N\x88e\x8c\x01b\x94\x8c\x01x\x94\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00\x86\x94u.";

/// Every instruction of every protocol that is refused, with its byte (Python's `pickletools`).
const REFUSED: [(&str, u8); 36] = [
    ("INT", b'I'),
    ("LONG", b'L'),
    ("STRING", b'S'),
    ("BINSTRING", b'T'),
    ("SHORT_BINSTRING", b'U'),
    ("BINBYTES", b'B'),
    ("SHORT_BINBYTES", b'C'),
    ("BINBYTES8", 0x8e),
    ("BYTEARRAY8", 0x96),
    ("NEXT_BUFFER", 0x97),
    ("READONLY_BUFFER", 0x98),
    ("UNICODE", b'V'),
    ("FLOAT", b'F'),
    ("LIST", b'l'),
    ("DICT", b'd'),
    ("EMPTY_SET", 0x8f),
    ("ADDITEMS", 0x90),
    ("FROZENSET", 0x91),
    ("POP", b'0'),
    ("DUP", b'2'),
    ("POP_MARK", b'1'),
    ("GET", b'g'),
    ("PUT", b'p'),
    ("EXT1", 0x82),
    ("EXT2", 0x83),
    ("EXT4", 0x84),
    ("GLOBAL", b'c'),
    ("STACK_GLOBAL", 0x93),
    ("REDUCE", b'R'),
    ("BUILD", b'b'),
    ("INST", b'i'),
    ("OBJ", b'o'),
    ("NEWOBJ", 0x81),
    ("NEWOBJ_EX", 0x92),
    ("PERSID", b'P'),
    ("BINPERSID", b'Q'),
];

#[test]
fn values_are_read() {
    let pickle = Pickle::read(SMALL).expect("a pickle");
    let a = pickle.get(pickle.root(), "a").expect("a");
    assert_eq!(
        pickle.items(a),
        [
            Value::Integer(1),
            Value::Integer(-2),
            Value::Real(2.5),
            Value::None,
            Value::Bool(true)
        ]
    );
    let b = pickle.get(pickle.root(), "b").expect("b");
    let [text, number] = pickle.items(b) else {
        panic!("{b:?}")
    };
    assert_eq!(pickle.text(*text), Some("x"));
    assert_eq!(*number, Value::Unsigned(1 << 63));
    assert_eq!(pickle.end(), SMALL.len());
}

#[test]
fn every_other_instruction_is_refused_by_name() {
    for (name, code) in REFUSED {
        let bytes = [b"\x80\x04K\x01K\x02".as_slice(), &[code], b"os\nsystem\n."].concat();
        match Pickle::read(&bytes) {
            Err(PickleError::Forbidden {
                name: told, offset, ..
            }) => assert_eq!((told, offset), (name, 6)),
            other => panic!("{name}: {other:?}"),
        }
    }
    for code in 0_u8..=255 {
        let known = REFUSED.iter().any(|(_, byte)| *byte == code);
        let bytes = [0x80, 4, code, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        if let Err(PickleError::Forbidden { name, .. }) = Pickle::read(&bytes) {
            assert_eq!(
                name == "that no protocol knows" || code == 0x80,
                !known,
                "{code:#04x}"
            );
        } else {
            assert!(!known, "{code:#04x}");
        }
    }
}

#[test]
fn damage_is_told() {
    let cases: [(&[u8], &str); 12] = [
        (b"", "not a pickle"),
        (b"(lp0\n.", "not a pickle"),
        (b"\x80\x06.", "protocol 6"),
        (b"\x80\x04.", "stack empty"),
        (b"\x80\x04u.", "without its MARK"),
        (b"\x80\x04K\x01e.", "without its MARK"),
        (b"\x80\x04K\x01a.", "no list"),
        (b"\x80\x04}(K\x01u.", "a key without its value"),
        (b"\x80\x04h\x07.", "empty place in the memo"),
        (b"\x80\x04Nr\xff\xff\xff\x7f.", "beyond all that was read"),
        (b"\x80\x04X\xff\xff\xff\xff", "a text at byte 2"),
        (
            b"\x80\x04\x8a\x0a\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00.",
            "more than 64 bits",
        ),
    ];
    for (bytes, told) in cases {
        let error = Pickle::read(bytes).expect_err(told).to_string();
        assert!(error.contains(told), "{error}");
    }
}

#[test]
fn many_open_lists_are_refused_and_endless_ones_are_an_index() {
    let deep = [b"\x80\x04".as_slice(), &b"(".repeat(5_000)].concat();
    let error = Pickle::read(&deep).expect_err("too deep");
    assert!(matches!(error, PickleError::TooDeep { .. }), "{error}");
    // A list that is its own only element.
    let pickle = Pickle::read(b"\x80\x04]\x94h\x00a.").expect("a pickle");
    assert_eq!(pickle.items(pickle.root()), [pickle.root()]);
    // A million lists, each in the next: no stack of calls holds them.
    let nested = [
        b"\x80\x04".as_slice(),
        &b"]".repeat(1 << 20),
        &b"a".repeat((1 << 20) - 1),
        b".",
    ];
    let nested = nested.concat();
    let pickle = Pickle::read(&nested).expect("a pickle");
    assert_eq!(pickle.items(pickle.root()).len(), 1);
}

proptest! {
    #[test]
    fn any_bytes_give_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Pickle::read(&[b"\x80\x04".as_slice(), &bytes].concat());
        let _ = Pickle::read(&bytes);
    }

    #[test]
    fn a_cut_is_told(at in 0..SMALL.len()) {
        prop_assert!(Pickle::read(&SMALL[..at]).is_err());
    }

    /// Numbers of any length, against the two's complement that is written here.
    #[test]
    fn whole_numbers_are_kept(number in any::<i64>(), padding in 0_usize..8) {
        let mut bytes = number.to_le_bytes().to_vec();
        bytes.extend(vec![if number < 0 { 0xff } else { 0 }; padding]);
        let pickle = [b"\x80\x04\x8a".as_slice(), &[bytes.len() as u8], &bytes, b"."].concat();
        let pickle = Pickle::read(&pickle).expect("a pickle");
        prop_assert_eq!(pickle.root(), Value::Integer(number));
    }
}
