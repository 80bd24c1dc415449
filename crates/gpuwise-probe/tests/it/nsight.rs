//! Exports of Nsight Systems: real ones, small ones made here, and files that are none.

use gpuwise_domain::profile::nsight::NsightExport;
use gpuwise_domain::profile::timeline::{Detail, Direction, MemoryKind, Needed, WorkClass};
use gpuwise_probe::nsight::{Exporter, NsightError, ReportKind, read_export, report_kind};
use proptest::prelude::*;
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read as _;
use std::path::Path;
use std::sync::LazyLock;

fn unpacked(folder: &Path, name: &str) -> Vec<u8> {
    let packed = std::fs::read(folder.join(format!("nsys/{name}.gz"))).expect("a sample");
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(&packed[..])
        .read_to_end(&mut plain)
        .expect("gzip");
    plain
}

fn read(bytes: &[u8]) -> Result<NsightExport, NsightError> {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), bytes).expect("written");
    read_export(file.path())
}

/// Marks every stretch between any two times that occur.
fn union(mut spans: Vec<(i64, i64)>) -> i64 {
    spans.sort_unstable();
    let (mut sum, mut end) = (0, i64::MIN);
    for (from, to) in spans {
        sum += (to - from.max(end)).max(0);
        end = end.max(to);
    }
    sum
}

#[test]
fn exports_of_the_sample_data_are_exact() {
    let Some(folder) = gpuwise_needs::data("profile") else {
        return;
    };
    let expected = std::fs::read(folder.join("expected_other.json")).expect("expected");
    let expected: serde_json::Value = serde_json::from_slice(&expected).expect("JSON");
    for (name, want) in expected["nsys"].as_object().expect("nsys") {
        let export = read(&unpacked(&folder, name)).expect(name);
        assert_eq!(
            serde_json::json!(export.tables),
            want["tables_nonempty"],
            "{name}"
        );
        assert_eq!(
            export.product_version.as_deref(),
            want["export"]["EXPORT_PRODUCT_VERSION"].as_str()
        );
        assert_eq!(
            export.schema_version.as_deref(),
            want["export"]["EXPORT_SCHEMA_VERSION"].as_str()
        );
        let mut devices: BTreeMap<String, (Vec<_>, u64, u64)> = BTreeMap::new();
        for process in &export.processes {
            for work in &process.timeline.work {
                let device = process.timeline.device_of(work).expect("a device").number;
                let entry = devices.entry(device.to_string()).or_default();
                entry.0.push((work.start_ns, work.end_ns));
                match work.class {
                    WorkClass::Kernel => entry.1 += 1,
                    _ => entry.2 += 1,
                }
                if work.class == WorkClass::Kernel {
                    let short = process.short_name(work.name);
                    assert!(
                        process.timeline.names.text(work.name).contains(short),
                        "{name} {short}"
                    );
                }
            }
        }
        for (device, (spans, kernels, memory)) in devices {
            let want = &want["devices"][&device];
            assert_eq!(want["n_kernels"], kernels, "{name} {device}");
            assert_eq!(want["n_mem"], memory, "{name} {device}");
            assert_eq!(want["busy_ns"], union(spans), "{name} {device}");
        }
    }
}

/// Of two processes with equal correlation ids, each kernel finds the call of its own: 3,986 of 4,010
/// as a join in SQL on process and id finds them; on the id alone there would be 4,280.
#[test]
fn kernels_find_calls_and_operators_of_their_own_process() {
    let Some(folder) = gpuwise_needs::data("profile") else {
        return;
    };
    let export = read(&unpacked(&folder, "mfu_2gpu_before.sqlite")).expect("an export");
    assert_eq!(export.processes.len(), 2);
    let (mut linked, mut in_operators, mut kernels) = (0, 0, 0);
    for process in &export.processes {
        let timeline = &process.timeline;
        for work in timeline
            .work
            .iter()
            .filter(|work| work.class == WorkClass::Kernel)
        {
            kernels += 1;
            linked += u32::from(work.call.get().is_some());
            if let (Some(call), Some(operator)) =
                (timeline.call_of(work), timeline.operator_of(work))
            {
                in_operators += 1;
                assert_eq!(call.thread, operator.thread);
                assert!(operator.start_ns <= call.start_ns && call.start_ns < operator.end_ns);
            }
        }
        assert_eq!(timeline.devices.len(), 1);
        let named = |name: &str| timeline.names.iter().any(|(_, text)| text == name);
        // One name is in the range itself, the other in the table of texts.
        assert!(
            named("aten::to") && named("ncclSend"),
            "ranges by both spellings"
        );
        assert!(!timeline.overhead.is_empty());
    }
    assert_eq!((kernels, linked), (4_010, 3_986));
    assert!(in_operators > 2_000, "{in_operators}");
}

const SMALL: &str = "
    CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
    INSERT INTO StringIds VALUES (1, 'gemm<float>(int)'), (2, 'gemm'), (3, 'cudaLaunchKernel'), (4, 'step'), (5, 'worker');
    CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, \"end\" INT, globalTid INT, correlationId INT, nameId INT);
    INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (10, 20, 117440513, 1, 3), (12, 20, 134217730, 1, 3), (50, 55, 117440513, 2, 3);
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, \"end\" INT, deviceId INT, streamId INT, globalPid INT, correlationId INT, demangledName INT, shortName INT);
    INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (30, 40, 0, 7, 117440512, 1, 1, 2), (31, 29, 0, 7, 134217728, 1, 1, 2), (NULL, 5, 0, 7, 117440512, 1, 1, 2);
    CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INT, \"end\" INT, deviceId INT, streamId INT, globalPid INT, correlationId INT, bytes INT, copyKind INT, srcKind INT, dstKind INT);
    INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (60, 70, 0, 7, 117440512, 2, 4096, 1, 0, 2);
    CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INT, \"end\" INT, deviceId INT, streamId INT, globalPid INT, correlationId INT, graphId INT);
    INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (80, 90, 0, 7, 117440512, 2, 12);
    CREATE TABLE NVTX_EVENTS (start INT, \"end\" INT, eventType INT, text TEXT, textId INT, globalTid INT);
    INSERT INTO NVTX_EVENTS VALUES (0, 45, 59, NULL, 4, 117440513), (5, 25, 59, 'aten::mm, seq = 3, sizes = [2]', NULL, 117440513), (6, 9, 59, 'aten::t, op_id = 8', NULL, 117440513), (7, NULL, 60, 'open', NULL, 117440513), (1, 2, 34, 'mark', NULL, 117440513), (1, 2, 59, 'other', NULL, 1);
    CREATE TABLE TARGET_INFO_GPU (id INT, name TEXT, smCount INT, totalMemory INT, computeMajor INT, computeMinor INT);
    INSERT INTO TARGET_INFO_GPU VALUES (5, 'NVIDIA H100', 132, 85899345920, 9, 0);
    CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INT, cudaId INT, pid INT);
    INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (5, 0, 7);
    CREATE TABLE TARGET_INFO_GPU_METRICS (typeId INT, metricId INT, metricName TEXT);
    INSERT INTO TARGET_INFO_GPU_METRICS VALUES (4294967301, 2, 'SMs Active [Throughput %]');
    CREATE TABLE GPU_METRICS (timestamp INT, typeId INT, metricId INT, value INT);
    INSERT INTO GPU_METRICS VALUES (33, 4294967301, 2, 41), (34, 4294967301, 9, 41);
    CREATE TABLE ThreadNames (nameId INT, globalTid INT);
    INSERT INTO ThreadNames VALUES (5, 117440513);
    CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INT);
    INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1779782330176752435);
";

fn made(sql: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("made.sqlite");
    let connection = Connection::open(&path).expect("opened");
    connection.execute_batch(sql).expect("made");
    connection.close().expect("closed");
    std::fs::read(path).expect("read")
}

#[test]
fn tables_become_a_timeline_for_each_process() {
    let export = read(&made(SMALL)).expect("an export");
    let [seven, eight] = &export.processes[..] else {
        panic!("{:?}", export.processes.len())
    };
    assert_eq!((seven.id, eight.id), (7, 8));
    let timeline = &seven.timeline;
    let text = |name| timeline.names.text(name);
    assert_eq!(timeline.epoch_ns, Some(1_779_782_330_176_752_435));
    let device = &timeline.devices[0];
    assert_eq!(
        (device.name.as_deref(), device.multiprocessors),
        (Some("NVIDIA H100"), Some(132))
    );
    assert_eq!(device.compute_capability, Some((9, 0)));
    let [kernel, graph, copy] = &timeline.work[..] else {
        panic!("{:?}", timeline.work)
    };
    assert_eq!(
        (text(kernel.name), seven.short_name(kernel.name)),
        ("gemm<float>(int)", "gemm")
    );
    assert_eq!(timeline.call_of(kernel).map(|call| call.start_ns), Some(10));
    assert_eq!(
        timeline.operator_of(kernel).map(|o| text(o.name)),
        Some("aten::mm")
    );
    assert_eq!(text(graph.name), "CUDA graph 12");
    let Some(Detail::Copy(shape)) = timeline.detail_of(copy) else {
        panic!("no copy")
    };
    assert_eq!(
        (shape.bytes, shape.direction, shape.source),
        (
            Some(4096),
            Some(Direction::HostToDevice),
            MemoryKind::Pageable
        )
    );
    assert_eq!(timeline.operator_of(copy), None);
    assert_eq!(
        timeline
            .annotations
            .iter()
            .map(|a| text(a.name))
            .collect::<Vec<_>>(),
        ["step"]
    );
    assert_eq!(timeline.threads[0].name.as_deref(), Some("worker"));
    assert_eq!(
        (timeline.samples.len(), timeline.samples[0].value),
        (1, 41.0)
    );
    // The other process has its own call under the same correlation id, and a device of its own.
    let other = &eight.timeline;
    assert_eq!(
        other.call_of(&other.work[0]).map(|call| call.start_ns),
        Some(12)
    );
    assert_eq!((other.work[0].start_ns, other.work[0].end_ns), (31, 31));
    assert_eq!(other.devices[0].name, None);
    let losses: Vec<(&str, u64)> = timeline
        .losses
        .iter()
        .map(|loss| (&*loss.what, loss.count))
        .collect();
    assert_eq!(
        losses.iter().map(|(_, count)| count).sum::<u64>(),
        1 + 1 + 1 + 1 + 1,
        "a kernel without a start, a graph, a range elsewhere, one without an end, a sample: {losses:?}"
    );
}

#[test]
fn any_table_may_be_missing() {
    let tables = [
        "StringIds",
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        "CUPTI_ACTIVITY_KIND_KERNEL",
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
        "NVTX_EVENTS",
        "TARGET_INFO_GPU",
        "TARGET_INFO_CUDA_DEVICE",
        "TARGET_INFO_GPU_METRICS",
        "GPU_METRICS",
        "ThreadNames",
        "TARGET_INFO_SESSION_START_TIME",
    ];
    for table in tables {
        let export = read(&made(&format!("{SMALL} DROP TABLE {table};"))).expect(table);
        let work: usize = export.processes.iter().map(|p| p.timeline.work.len()).sum();
        let gone = match table {
            "CUPTI_ACTIVITY_KIND_KERNEL" => 2,
            "CUPTI_ACTIVITY_KIND_MEMCPY" | "CUPTI_ACTIVITY_KIND_GRAPH_TRACE" => 1,
            _ => 0,
        };
        assert_eq!(work, 4 - gone, "{table}");
    }
}

#[test]
fn files_that_are_none_are_told() {
    let cases: [(Vec<u8>, &str, &str); 6] = [
        (
            b"{\"traceEvents\": []}".to_vec(),
            "no SQLite file",
            "nsys export",
        ),
        (
            Vec::new(),
            "no export of Nsight Systems; it holds no table",
            "nsys export",
        ),
        (
            made("CREATE TABLE users (id INT); CREATE TABLE posts (id INT);"),
            "it holds posts, users",
            "nsys export",
        ),
        (
            made(
                "CREATE TABLE StringIds (id INT, value TEXT); INSERT INTO StringIds VALUES (1, 'a');",
            ),
            "no activity of a GPU: its tables are StringIds",
            "--trace=cuda",
        ),
        (
            made("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, deviceId INT);"),
            "CUPTI_ACTIVITY_KIND_KERNEL has no column end",
            "",
        ),
        (
            made(SMALL)[..9_000].to_vec(),
            "damaged or cut-off",
            "export the report again",
        ),
    ];
    for (bytes, told, hint) in cases {
        let error = read(&bytes).expect_err(told);
        assert!(error.to_string().contains(told), "{error}");
        assert!(
            error.hint().unwrap_or_default().contains(hint),
            "{:?}",
            error.hint()
        );
    }
    let error = read_export(Path::new("/no/such/file.sqlite")).expect_err("no file");
    assert!(
        error.to_string().starts_with("/no/such/file.sqlite: "),
        "{error}"
    );
}

#[test]
fn reports_of_the_vendor_need_the_vendors_program() {
    let missing = Exporter {
        nsys: OsStr::new("gpuwise-no-such-nsys"),
        ncu: OsStr::new("gpuwise-no-such-ncu"),
    };
    let report = Path::new("runs/my report.nsys-rep");
    assert_eq!(report_kind(report), Some(ReportKind::Systems));
    assert_eq!(
        report_kind(Path::new("a.ncu-rep")),
        Some(ReportKind::Compute)
    );
    assert_eq!(report_kind(Path::new("a.sqlite")), None);
    let error = missing
        .export_systems(report, Path::new("out.sqlite"))
        .expect_err("no program");
    assert!(
        error
            .to_string()
            .contains("`nsys`, which is not on this machine"),
        "{error}"
    );
    assert!(
        error
            .hint()
            .expect("a hint")
            .contains("nsys export --type sqlite 'runs/my report.nsys-rep'")
    );
    let error = missing
        .import_compute(Path::new("a.ncu-rep"))
        .expect_err("no program");
    assert!(
        error
            .hint()
            .expect("a hint")
            .contains("ncu --import a.ncu-rep --page raw --csv")
    );
    let failing = Exporter {
        nsys: OsStr::new("false"),
        ncu: OsStr::new("false"),
    };
    let error = failing
        .export_systems(report, Path::new("out.sqlite"))
        .expect_err("it fails");
    assert!(
        matches!(error, NsightError::ExporterFailed { .. }),
        "{error}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// A cut or changed file is read or refused, and never a panic.
    #[test]
    fn damaged_files_give_an_answer(
        at in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
    ) {
        static FILE: LazyLock<Vec<u8>> = LazyLock::new(|| made(SMALL));
        let mut file = FILE.clone();
        for (at, byte) in changes {
            let at = at.index(file.len());
            file[at] = byte;
        }
        file.truncate(at.index(file.len() * 4).max(1));
        let _ = read(&file);
    }
}

/// What a table would have said is said to be lacking, from the table that it would be in.
#[test]
fn tables_that_are_missing_are_named() {
    let Some(folder) = gpuwise_needs::data("profile") else {
        return;
    };
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), unpacked(&folder, "mfu_2gpu_before.sqlite")).expect("written");
    let lacks = || -> Vec<(Needed, String)> {
        let export = read_export(file.path()).expect("an export");
        let lacks = export.processes[0].timeline.lacks.iter();
        lacks
            .map(|lack| (lack.needed, lack.place.clone()))
            .collect()
    };
    assert_eq!(lacks(), []);
    let connection = Connection::open(file.path()).expect("SQLite");
    let mut wanted = Vec::new();
    for (table, needed) in [
        ("CUPTI_ACTIVITY_KIND_KERNEL", Needed::Kernels),
        ("CUPTI_ACTIVITY_KIND_RUNTIME", Needed::Calls),
        ("StringIds", Needed::Names),
    ] {
        let sql = format!("DROP TABLE {table}");
        connection.execute_batch(&sql).expect("dropped");
        wanted.push((needed, format!("the table {table}")));
        assert_eq!(lacks(), wanted);
    }
}
