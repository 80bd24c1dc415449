//! Pages of files other than traces: their pictures, and names that mean harm.

use crate::html::balanced;
use gpuwise_domain::profile::{
    figure::Summary,
    kernel_counters::{Bound, CountedLaunch, KernelCounters},
    memory_snapshot::MemoryCategory,
    sources::{
        CategoryFigures, CountedFigures, CountersSource, Hang, HangSource, LateRank, MemoryFigures,
        MemorySource, OwnedMemory, OwnedMoment, PlaneStep, PlaneSummary, PlanesSource, Roofs,
        Source, SourceContent, TraceFigures,
    },
};
use gpuwise_view::profile::sources::report;
use std::collections::BTreeMap;

const HOSTILE: &str = "\"><script>alert(1)</script>&'";

/// The page of one such file, which is well-formed and runs nothing.
fn page(content: SourceContent) -> String {
    let source = Source {
        file: HOSTILE.into(),
        content,
    };
    let text = report(&[source], &Summary::default(), HOSTILE, "gpuwise");
    balanced(&text);
    assert!(!text.contains("<script"), "{text}");
    assert!(!text.contains("No GPU work"), "{text}");
    text
}

/// The first picture of a page, for review.
fn picture(page: &str) -> &str {
    let from = page.find("<svg").expect("a picture");
    let to = page[from..].find("</svg>").expect("its end");
    &page[from..from + to + 7]
}

fn memory() -> SourceContent {
    let mib = 1_i64 << 20;
    let moment = |event: usize, live: i64, held: [i64; 2]| OwnedMoment {
        at_us: Some(1_000_000 + i64::try_from(event).unwrap() * 250_000),
        event,
        live: live * mib,
        reserved: 900 * mib,
        held: held.map(|held| held * mib).to_vec(),
        others: 50 * mib,
    };
    SourceContent::Memory(Box::new(MemorySource {
        figures: MemoryFigures {
            traces: vec![TraceFigures {
                peak_live: 800 * mib,
                peak_reserved: 900 * mib,
                reserved_at_peak: 900 * mib,
                ..TraceFigures::default()
            }],
            ..MemoryFigures::default()
        },
        owned: vec![OwnedMemory {
            owners: vec!["forward (model.py:12)".into(), HOSTILE.into()],
            moments: vec![
                moment(0, 200, [100, 0]),
                moment(4, 800, [500, 200]),
                moment(8, 300, [100, 200]),
            ],
        }],
        ..MemorySource::default()
    }))
}

#[test]
fn memory_by_its_owners_over_time() {
    let page = page(memory());
    for expected in [
        "Memory over time",
        "forward (model.py:12)",
        "taken from the driver",
        "smaller owners",
        "before the recording began",
        "At most 800 MiB in use",
    ] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    insta::assert_snapshot!("memory_by_owner", picture(&page));
}

#[test]
fn memory_by_what_it_is_used_for() {
    let mut first = [0; MemoryCategory::ALL.len()];
    first[0] = 1 << 30;
    let mut second = first;
    second[4] = 3 << 30;
    let page = page(SourceContent::Categories(CategoryFigures {
        event_count: 2,
        peak_live: 4 << 30,
        categories_at_peak: vec![
            (MemoryCategory::Activation, 3 << 30),
            (MemoryCategory::Parameter, 1 << 30),
        ],
        moments: vec![(0, first), (5_000_000, second), (9_000_000, first)],
        ..CategoryFigures::default()
    }));
    let picture = picture(&page);
    // The largest lies on the floor, and no colour comes twice.
    let mut colours: Vec<&str> = picture
        .split("fill=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    assert_eq!(colours.len(), 16, "eight layers and their key");
    colours.sort_unstable();
    colours.dedup();
    assert_eq!(colours.len(), 8, "{colours:?}");
    assert!(picture.contains("activation") && picture.contains("GiB"));
}

fn counted(
    name: &str,
    percent: (f64, f64),
    work: Option<(f64, f64)>,
) -> (CountedLaunch, CountedFigures) {
    let launch = CountedLaunch {
        kernel: name.into(),
        ..CountedLaunch::default()
    };
    let figures = CountedFigures {
        duration_ns: Some(1e6),
        memory_percent: Some(percent.0),
        compute_percent: Some(percent.1),
        memory_bytes: work.map(|work| work.0),
        operations: work
            .map(|work| BTreeMap::from([("fp32".to_owned(), work.1)]))
            .unwrap_or_default(),
        bound: Some(Bound::Memory),
        ..CountedFigures::default()
    };
    (launch, figures)
}

#[test]
fn kernels_on_their_roofline() {
    let long = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int)";
    let kernels = [
        counted(long, (91.0, 10.0), Some((6e8, 5e7))),
        counted("sgemm", (30.0, 85.0), Some((1e7, 2e10))),
        counted("sgemm", (31.0, 84.0), Some((1.02e7, 2e10))),
        counted(HOSTILE, (12.0, 9.0), None),
    ];
    let (launches, figures) = kernels.into_iter().unzip();
    let page = page(SourceContent::Counters(CountersSource {
        counters: KernelCounters {
            launches,
            ..KernelCounters::default()
        },
        figures,
        roofs: Roofs {
            memory: Some(6.7e11),
            fp32: Some(3.2e13),
        },
    }));
    assert!(
        page.contains(
            "vectorized_elementwise_kernel&lt;4, CUDAFunctor_add&lt;…&gt;, array&lt;…&gt;&gt;"
        ),
        "{page}"
    );
    assert!(
        page.contains("title=\"void at::native::"),
        "the whole name is there"
    );
    insta::assert_snapshot!("roofline", picture(&page));
}

#[test]
fn steps_of_a_tpu() {
    let step = |number: i128, busy_ps| PlaneStep {
        name: number.to_string(),
        start_ps: number * 1_000_000_000,
        duration_ps: 900_000_000,
        busy_ps,
    };
    let page = page(SourceContent::Planes(PlanesSource {
        planes: vec![PlaneSummary {
            name: "/device:TPU:0".into(),
            is_device: true,
            steps: vec![
                step(3, 800_000_000),
                step(4, 400_000_000),
                step(5, 900_000_000),
            ],
            ..PlaneSummary::default()
        }],
        ..PlanesSource::default()
    }));
    let caption = "TPU:0: 3 steps, median 900 µs; operations take 78 % of them.";
    assert!(page.contains(caption), "{page}");
    assert!(page.contains("steps 3 to 5"), "{page}");
}

#[test]
fn who_was_late() {
    let page = page(SourceContent::Hangs(HangSource {
        ranks: vec![0, 1, 2, 3],
        dump_count: 4,
        hangs: vec![Hang {
            group: "0".into(),
            sequence: 17,
            operation: HOSTILE.into(),
            waiting: vec![0, 1],
            late: vec![LateRank {
                rank: 3,
                last: Some((16, "nccl:all_reduce".into())),
                frames: Vec::new(),
            }],
            missing: vec![2],
            ..Hang::default()
        }],
    }));
    for expected in [
        "rank 3 did not come",
        "rank 2 left no dump",
        "rank 0 waits in it",
    ] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    insta::assert_snapshot!("who_was_late", picture(&page));
}

#[test]
fn files_without_a_picture_have_their_tables() {
    let page = page(SourceContent::Hangs(HangSource {
        dump_count: 1,
        ..HangSource::default()
    }));
    assert!(
        page.contains("every collective that was called was finished by all"),
        "{page}"
    );
}

#[test]
fn several_files_stand_one_after_another() {
    let source = |file: &str| Source {
        file: file.into(),
        content: memory(),
    };
    let all = [source("first"), source("second")];
    let text = report(&all, &Summary::default(), "both", "gpuwise");
    balanced(&text);
    assert!(text.contains("<h3>first</h3>") && text.contains("<h3>second</h3>"));
}
