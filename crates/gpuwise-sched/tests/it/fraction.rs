//! Parts of GPUs under each way of sharing.

use gpuwise_domain::placement::{GpuKind, IsolationLevel};
use gpuwise_read::catalogue::{read_mig_boards, read_sharing_means, read_vgpu_profiles};
use gpuwise_sched::fraction::on_kind;

const VGPU: &str = include_str!("../../../../catalogue/vgpu_profiles.csv");
const MEANS: &str = include_str!("../../../../catalogue/isolation.toml");
const MIG: &str = include_str!("../../../../catalogue/mig_profiles.csv");

fn kind(name: &str, memory_mib: u32, units: u32, tflops: u32, bandwidth_gbs: u32) -> GpuKind {
    let boards = read_mig_boards("mig_profiles.csv", MIG).unwrap();
    let board = boards
        .into_iter()
        .find(|b| b.gpus.iter().any(|gpu| gpu == name));
    GpuKind {
        features: Vec::new(),
        name: name.into(),
        memory_mib: Some(memory_mib),
        units: Some(units),
        bandwidth_gbs: Some(bandwidth_gbs),
        tflops: Some(tflops),
        price: None,
        mig: board.map(|board| board.geometry),
    }
}

#[test]
fn a_quarter_of_one_gpu_is_not_a_quarter_of_another() {
    let h100 = kind("H100 SXM5 80GB", 81_559, 132, 989, 3350);
    let l4 = kind("L4", 23_034, 58, 121, 300);
    // 250 thousandths of 3350 GB/s are 837.5: more than an L4 has.
    assert_eq!(on_kind(250, &h100, &l4), None);
    // By compute 1.23 %, by bandwidth 8.96 %: the larger counts.
    assert_eq!(on_kind(1000, &l4, &h100), Some(123));
    assert_eq!(on_kind(80, &h100, &l4), Some(894));
    let unknown = GpuKind {
        tflops: None,
        ..l4.clone()
    };
    assert_eq!(on_kind(10, &unknown, &h100), None);
}

#[test]
fn rows_of_vgpu_types_promise_no_more_memory_than_a_gpu_has() {
    let profiles = read_vgpu_profiles("vgpu_profiles.csv", VGPU).unwrap();
    for profile in &profiles {
        let alike = profiles.iter().filter(|other| other.gpus == profile.gpus);
        let whole = alike.map(|other| other.frame_buffer_mib).max().unwrap();
        let name = &profile.profile;
        // Printed sizes are rounded: two halves of an H100 NVL are 10 MiB more than all of it.
        assert!(
            profile.frame_buffer_mib * profile.most <= whole + whole / 1000,
            "{name}"
        );
        assert!(
            profile.most_mixed.is_none_or(|mixed| mixed <= profile.most),
            "{name}"
        );
    }
}

#[test]
fn ways_of_sharing_are_rows_with_a_source() {
    let means = read_sharing_means("isolation.toml", MEANS).unwrap();
    let of = |name: &str| means.iter().find(|one| one.name == name).unwrap();
    assert_eq!(of("mig").memory, IsolationLevel::Hardware);
    assert_eq!(
        (of("mps").faults, of("mps").most),
        (IsolationLevel::None, Some(48))
    );
    assert_eq!(of("time-slice").memory, IsolationLevel::None);
    for (text, words) in [
        ("[[means]]\nname = \"x\"", "missing field"),
        (
            "[[means]]\nname = \"x\"\ntitle = \"x\"\nmemory = \"some\"\ncompute = \"none\"\nfaults = \"none\"\nmeaning = \"\"\nsource = \"y\"",
            "unknown variant",
        ),
        (
            "[[means]]\nname = \"x\"\ntitle = \"x\"\nmemory = \"none\"\ncompute = \"none\"\nfaults = \"none\"\nmeaning = \"\"\nsource = \" \"",
            "`source` is empty",
        ),
    ] {
        let error = read_sharing_means("f", text).unwrap_err();
        assert!(error.problem.contains(words), "{error}");
    }
}
