//! Figures on small timelines made by hand, and properties of intervals.

use crate::support::{classifier, measured};
use gpuwise_domain::profile::{
    figures::TensorCores,
    timeline::{Device, HostSpan, Index, Stream, Timeline, Work, WorkClass},
};
use gpuwise_measure::figures::intervals::Intervals;
use proptest::prelude::*;

/// Ranges within a short time, so that a set of moments can be compared.
fn ranges() -> impl Strategy<Value = Vec<(i64, i64)>> {
    proptest::collection::vec((0_i64..60, 0_i64..12), 0..12)
        .prop_map(|list| list.into_iter().map(|(at, long)| (at, at + long)).collect())
}

/// The moments of ranges, one by one.
fn moments(ranges: &[(i64, i64)]) -> Vec<bool> {
    (0..80)
        .map(|at| {
            ranges
                .iter()
                .any(|(start, end)| (*start..*end).contains(&at))
        })
        .collect()
}

proptest! {
    #[test]
    fn sets_of_time_are_sets_of_moments(left in ranges(), right in ranges()) {
        let (a, b) = (Intervals::union(left.clone()), Intervals::union(right.clone()));
        let (x, y) = (moments(&left), moments(&right));
        let both: Vec<bool> = x.iter().zip(&y).map(|(x, y)| *x && *y).collect();
        let only: Vec<bool> = x.iter().zip(&y).map(|(x, y)| *x && !*y).collect();
        let length = |moments: &[bool]| {
            i64::try_from(moments.iter().filter(|held| **held).count()).expect("few")
        };
        prop_assert_eq!(moments(a.ranges()), x.clone());
        prop_assert_eq!(a.length(), length(&x));
        prop_assert_eq!(moments(a.intersection(&b).ranges()), both.clone());
        prop_assert_eq!(a.overlap(&b), length(&both));
        prop_assert_eq!(moments(a.without(&b).ranges()), only);
        for (start, end) in right {
            prop_assert_eq!(a.overlap_range(start, end), length(&x[start as usize..end as usize]));
        }
        for (at, held) in (0..).zip(&x) {
            prop_assert_eq!(a.holds(at), *held);
        }
    }

    /// However work and calls lie, the parts of the idle time sum to it.
    #[test]
    fn idle_parts_sum(spans in proptest::collection::vec((0_i64..90_000, 0_i64..20_000, proptest::option::of((0_i64..90_000, 0_i64..30_000))), 1..20)) {
        let mut timeline = bare();
        for (start, long, call) in spans {
            let call = call.map_or(Index::NONE, |(at, long)| {
                timeline.calls.push(host(&mut timeline.names, "cudaLaunchKernel", at, at + long));
                Index::of(timeline.calls.len() - 1)
            });
            let name = timeline.names.add("kernel");
            timeline.work.push(Work { call, ..kernel(name, start, start + long) });
        }
        let figures = measured(&timeline, &classifier()).figures;
        let whole = figures.whole;
        prop_assert_eq!(whole.idle.sum_ns(), whole.idle_ns);
        prop_assert!(whole.idle_ns >= 0);
        let path = figures.critical_path.expect("a path");
        prop_assert_eq!(path.by_cause.iter().map(|(_, ns)| ns).sum::<i64>(), whole.span_ns());
    }
}

fn bare() -> Timeline {
    Timeline {
        devices: vec![Device::default()],
        streams: vec![Stream {
            device: 0,
            number: 7,
        }],
        ..Timeline::default()
    }
}

fn kernel(name: gpuwise_domain::profile::timeline::NameId, start_ns: i64, end_ns: i64) -> Work {
    Work {
        start_ns,
        end_ns,
        name,
        stream: 0,
        call: Index::NONE,
        operator: Index::NONE,
        detail: Index::NONE,
        class: WorkClass::Kernel,
    }
}

fn host(
    names: &mut gpuwise_domain::profile::timeline::Names,
    name: &str,
    start_ns: i64,
    end_ns: i64,
) -> HostSpan {
    HostSpan {
        start_ns,
        end_ns,
        name: names.add(name),
        thread: 0,
        operands: Index::NONE,
    }
}

/// A gap of 100 µs: the loader until 40, the call from 60 to 75, then 25 µs until the kernel.
#[test]
fn a_gap_is_taken_apart() {
    let mut timeline = bare();
    let name = timeline.names.add("volta_sgemm_64x64_nt");
    let loader = host(
        &mut timeline.names,
        "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
        5_000,
        40_000,
    );
    let call = host(&mut timeline.names, "cudaLaunchKernel", 60_000, 75_000);
    timeline.annotations.push(loader);
    timeline.calls.push(call);
    timeline.work.push(kernel(name, -1_000, 0));
    timeline.work.push(Work {
        call: Index::of(0),
        ..kernel(name, 100_000, 101_000)
    });
    let whole = measured(&timeline, &classifier()).figures.whole;
    let idle = &whole.idle;
    assert_eq!(
        (
            idle.host_wait_ns,
            idle.in_call_ns,
            idle.kernel_wait_ns,
            idle.other_ns
        ),
        (60_000, 15_000, 0, 25_000)
    );
    assert_eq!(
        (idle.causes.loader_ns, idle.causes.framework_ns),
        (35_000, 25_000)
    );
    assert_eq!(idle.longest.len(), 1);
}

#[test]
fn names_say_what_kernels_are() {
    use TensorCores::{Ineligible, Unknown, Unused, Used};
    let names = classifier();
    let check = |name: &str, communication: bool, kind: &str, tensor_cores: TensorCores| {
        let found = names.kernel(name);
        assert_eq!(
            (
                found.communication,
                names.kind_name(found.kind),
                found.tensor_cores
            ),
            (communication, kind, tensor_cores),
            "{name}"
        );
    };
    check(
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        true,
        "communication",
        Ineligible,
    );
    check(
        "void dpsk::ep::internode::combine<false, 8>(int4*)",
        true,
        "communication",
        Ineligible,
    );
    check("void deep::internode::other<1>()", false, "other", Unknown);
    check("void step::internode_x()", false, "other", Unknown);
    check(
        "void vllm::cross_device_reduce_1stage<half, 8>(vllm::RankData*)",
        true,
        "communication",
        Ineligible,
    );
    check("volta_sgemm_64x64_nt", false, "gemm", Unused);
    check("nvjet_tst_128x256_64x4_2x1_v_bz_TNT", false, "gemm", Used);
    check(
        "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8>",
        false,
        "gemm",
        Used,
    );
    check(
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1",
        false,
        "gemm",
        Used,
    );
    check(
        "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x8",
        false,
        "gemm",
        Unused,
    );
    check(
        "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x224x64_MI16x16x1_SN",
        false,
        "gemm",
        Used,
    );
    check(
        "triton_poi_fused__scaled_dot_product_flash_attention_cat_10",
        false,
        "elementwise",
        Ineligible,
    );
    check(
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>",
        false,
        "elementwise",
        Ineligible,
    );
    check(
        "cudnn_volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1",
        false,
        "conv",
        Unused,
    );
    check("triton_tem_fused_addmm_3", false, "gemm", Unknown);
    check(
        "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128>>",
        false,
        "attention",
        Used,
    );
    check("my_kernel", false, "other", Unknown);
}

#[test]
fn the_reference_page_is_that_of_the_code() {
    let page =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/figures.md");
    let wanted = gpuwise_measure::figures::definitions::reference();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&page, &wanted).expect("a page that can be written");
    }
    let text = std::fs::read_to_string(&page).unwrap_or_default();
    assert!(
        text == wanted,
        "docs/reference/figures.md is not that of the code: run the tests with UPDATE_DOCS=1 and commit it"
    );
}

/// Every figure that is given has a definition, and the parts of the critical path sum to the span.
#[test]
fn figures_are_defined() {
    let mut timeline = bare();
    let name = timeline.names.add("volta_sgemm_64x64_nt");
    let call = host(&mut timeline.names, "cudaLaunchKernel", 1_000, 5_000);
    timeline.calls.push(call);
    timeline.work.push(kernel(name, 0, 4_000));
    timeline.work.push(Work {
        call: Index::of(0),
        ..kernel(name, 6_000, 9_000)
    });
    let measured = measured(&timeline, &classifier());
    let path = measured.figures.critical_path.clone().expect("a path");
    let sum: i64 = path.by_cause.iter().map(|(_, ns)| ns).sum();
    assert_eq!(sum, 9_000);
    let profile = gpuwise_measure::figures::of_profile(vec![measured]);
    for figure in gpuwise_measure::figures::summary::figures(&profile) {
        assert!(
            gpuwise_measure::figures::definitions::definition(&figure.name).is_some(),
            "{} has no definition",
            figure.name
        );
    }
}

/// FLOPs of operators by hand: a multiplication and an addition are two.
#[test]
fn flops_follow_from_shapes() {
    use gpuwise_domain::profile::timeline::Operands;
    let check = |operator: &str, shapes: &[&[u64]], values: &[&str], wanted: Option<f64>| {
        let operands = Operands {
            shapes: shapes.iter().map(|shape| shape.to_vec()).collect(),
            types: Vec::new(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        let found = gpuwise_measure::figures::flops::flops(operator, &operands);
        assert_eq!(found, wanted, "{operator}");
    };
    check(
        "aten::mm",
        &[&[10, 1000], &[1000, 512]],
        &[],
        Some(10_240_000.0),
    );
    check("aten::mm", &[&[10, 1000], &[999, 512]], &[], None);
    check(
        "aten::addmm",
        &[&[1000], &[10, 512], &[512, 1000]],
        &[],
        Some(10_240_000.0),
    );
    check(
        "aten::bmm",
        &[&[16, 5, 64], &[16, 64, 7]],
        &[],
        Some(2.0 * 16.0 * 5.0 * 64.0 * 7.0),
    );
    // 7×7 kernel, stride 2, padding 3: 112×112 of 224×224.
    check(
        "aten::miopen_convolution",
        &[
            &[10, 3, 224, 224],
            &[64, 3, 7, 7],
            &[],
            &[],
            &[],
            &[],
            &[],
            &[],
            &[],
        ],
        &[
            "", "", "", "[3, 3]", "[2, 2]", "[1, 1]", "1", "False", "False",
        ],
        Some(2.0 * 10.0 * 64.0 * 112.0 * 112.0 * 3.0 * 49.0),
    );
    check(
        "aten::convolution_backward",
        &[&[10, 512, 7, 7], &[10, 512, 7, 7], &[512, 512, 3, 3]],
        &[
            "",
            "",
            "",
            "[0]",
            "[1, 1]",
            "[1, 1]",
            "[1, 1]",
            "False",
            "[0, 0]",
            "1",
            "[True, True, False]",
        ],
        Some(2.0 * 2.0 * 10.0 * 512.0 * 49.0 * 512.0 * 9.0),
    );
    check(
        "aten::_flash_attention_forward",
        &[&[2, 128, 8, 64], &[2, 256, 8, 64], &[2, 256, 8, 64]],
        &[],
        Some(4.0 * 2.0 * 8.0 * 128.0 * 256.0 * 64.0),
    );
    check("aten::relu", &[&[10, 10]], &[], None);
}
