//! Host files: what they say, and what is wrong with those that cannot be.

use gpuwise_read::{
    catalogue::read_balance,
    host::{read_host, running},
};
use proptest::prelude::*;

const DGX: &str = r#"
name = "our DGX"
gpu = "H100"
gpus = 8
link = "nvlink"

[cpu]
sockets = 2
cores = 112
clock_ghz = 2.6
numa_nodes = 2

[memory]
size = "2TiB"

[pcie]
generation = 5
lanes = 16

[network]
adapters = 8
gbit = 400

[storage]
kind = "local NVMe"
read = "25GB/s"
write = "12GB/s"
"#;

#[test]
fn a_host_is_read_as_it_is_written() {
    let host = read_host("dgx.toml", DGX).unwrap();
    assert_eq!(
        (host.gpus, host.cores, host.fast_link),
        (Some(8), Some(112.0), Some(true))
    );
    // 63 GB/s and 3,200 Gbit/s, as their makers say.
    assert!((host.pcie.unwrap().get() / 63.0e9 - 1.0).abs() < 0.001);
    assert_eq!(host.network.unwrap().get(), 4e11);
    assert_eq!(host.memory.unwrap().count(), 2 << 40);
    assert_eq!(host.storage_write.unwrap().get(), 12e9);
}

#[test]
fn what_a_host_does_not_say_is_unknown() {
    let host = read_host("little.toml", "gpus = 1").unwrap();
    assert_eq!(host.name, "little.toml");
    assert!(host.cores.is_none() && host.pcie.is_none() && host.fast_link.is_none());
}

#[test]
fn errors_say_where_and_what_would_be_right() {
    for (text, words) in [
        ("gpus = 0", "gpus: is 0"),
        ("cores = 8", "line 1: unknown field `cores`"),
        ("[cpu]\ncores = -1", "line 2"),
        ("[cpu]\nclock_ghz = nan", "cpu.clock_ghz: is NaN"),
        ("[memory]\nsize = \"lots\"", "memory.size"),
        ("[pcie]\ngeneration = 2", "expected one from 3 to 7"),
        (
            "[pcie]\ngeneration = 5\nlanes = 12",
            "expected 1, 2, 4, 8 or 16",
        ),
        ("[pcie]\nlanes = 16", "without `pcie.generation`"),
        ("link = \"ethernet\"", "expected nvlink, xgmi or pcie"),
        ("[storage]\nread = \"12GB\"", "such as \"12GB/s\""),
        ("[storage]\nread = \"0GB/s\"", "such as \"12GB/s\""),
        ("[network]\ngbit = -3", "network.gbit: is -3"),
    ] {
        let error = read_host("host.toml", text).unwrap_err().to_string();
        assert!(
            error.starts_with("host.toml: ") && error.contains(words),
            "{text}: {error}"
        );
    }
}

#[test]
fn what_runs_is_said_in_many_ways() {
    for (text, count, name) in [
        ("8xH100", 8, "H100"),
        ("8 × H100", 8, "H100"),
        ("H100:8", 8, "H100"),
        ("L4", 1, "L4"),
        ("2x H100 NVL 94GB", 2, "H100 NVL 94GB"),
        ("RTX 6000", 1, "RTX 6000"),
    ] {
        assert_eq!(running(text).unwrap(), (count, name.to_owned()), "{text}");
    }
    for text in ["0xH100", "8x", "", "H100:many", "99999999999xH100"] {
        assert!(running(text).is_err(), "{text}");
    }
}

#[test]
fn constants_of_the_balance_lie_between_their_ends() {
    let row = |value: &str| {
        format!(
            "[[constant]]\nname = \"a\"\nvalue = {value}\nlow = 1\nhigh = 2\nunit = \"s\"\nmeaning = \"m\"\nsource = \"s\"\n"
        )
    };
    assert!(read_balance("b.toml", &row("1.5")).is_ok());
    for value in ["3", "nan", "0.5"] {
        let error = read_balance("b.toml", &row(value)).unwrap_err().to_string();
        assert!(error.contains("constant \"a\""), "{error}");
    }
}

proptest! {
    #[test]
    fn no_text_breaks_the_reader(text in "\\PC*", at in 0usize..400) {
        let _ = read_host("any", &text);
        let _ = running(&text);
        let cut: String = DGX.chars().take(at).collect();
        let _ = read_host("cut", &(cut + &text));
    }
}
