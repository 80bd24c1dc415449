//! Small traces by hand: what is read of each kind of event, and of damaged ones.

use super::{read_text, said};

/// A trace of these events, as an object.
#[track_caller]
fn check(events: &str, expect: &str) {
    check_file(&format!("{{\"traceEvents\": [{events}]}}"), expect);
}

#[track_caller]
fn check_file(text: &str, expect: &str) {
    assert_eq!(said(&read_text(text)), expect, "of {text:.600}");
}

const KERNEL: &str = r#"{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 5, "dur": 2, "args": {"device": 0, "stream": 7, "correlation": 9, "External id": 3}}"#;
const LAUNCH: &str = r#"{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 4, "tid": 4, "ts": 1, "dur": 2, "args": {"External id": 3, "cbid": 211, "correlation": 9}}"#;
const OPERATOR: &str = r#"{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 4, "tid": 4, "ts": 0, "dur": 4, "args": {"External id": 3, "Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"], "Concrete Inputs": ["", ""]}}"#;

#[test]
fn work_calls_and_operators_are_joined() {
    check(
        &format!("{OPERATOR}, {LAUNCH}, {KERNEL}"),
        "0/7 k [5000, 7000) by cudaLaunchKernel of aten::mm [[2, 3], [3, 4]]",
    );
    // In any order, and without one another.
    check(
        &format!("{KERNEL}, {LAUNCH}, {OPERATOR}"),
        "0/7 k [5000, 7000) by cudaLaunchKernel of aten::mm [[2, 3], [3, 4]]",
    );
    check(KERNEL, "0/7 k [5000, 7000)");
    // Replay of a graph: many kernels of one call.
    check(
        &format!("{LAUNCH}, {KERNEL}, {KERNEL}"),
        "0/7 k [5000, 7000) by cudaLaunchKernel; 0/7 k [5000, 7000) by cudaLaunchKernel",
    );
    // Files before 2023 state the correlation as the external identifier: the operator is that of the time.
    let old = KERNEL.replace("\"External id\": 3", "\"External id\": 9");
    check(
        &format!("{OPERATOR}, {LAUNCH}, {old}"),
        "0/7 k [5000, 7000) by cudaLaunchKernel of aten::mm [[2, 3], [3, 4]]",
    );
    // An operator that ended before, or one of another thread, is not it.
    let ended = OPERATOR.replace("\"dur\": 4", "\"dur\": 0");
    check(
        &format!("{ended}, {LAUNCH}, {old}"),
        "0/7 k [5000, 7000) by cudaLaunchKernel",
    );
    let elsewhere = OPERATOR.replace("\"tid\": 4", "\"tid\": 5");
    check(
        &format!("{elsewhere}, {LAUNCH}, {old}"),
        "0/7 k [5000, 7000) by cudaLaunchKernel",
    );
}

#[test]
fn spellings_of_every_year() {
    check(
        r#"{"ph": "X", "cat": "Memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "pid": 1, "tid": "stream 20", "ts": 1, "dur": 1, "args": {"bytes": 64}},
           {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy DtoH (Device -> Pinned)", "pid": 1, "tid": 7, "ts": 2, "dur": 1, "args": {"device": 1, "stream": 7, "bytes": 8}},
           {"ph": "X", "cat": "gpu_memcpy", "name": "CopyDeviceToDevice", "pid": 2, "tid": 0, "ts": 3, "dur": 1, "args": {"device": 2, "stream": 0, "kind": "DtoD"}},
           {"ph": "X", "cat": "gpu_memset", "name": "Memset (Device)", "pid": 2, "tid": 0, "ts": 4, "dur": 1, "args": {"device": 2, "stream": 0, "bytes": 16}}"#,
        "1/20 Memcpy HtoD (Pageable -> Device) [1000, 2000) 64 bytes HostToDevice Pageable to Device; \
         1/7 Memcpy DtoH (Device -> Pinned) [2000, 3000) 8 bytes DeviceToHost Device to Pinned; \
         2/0 CopyDeviceToDevice [3000, 4000) ? bytes DeviceToDevice Unknown to Unknown; \
         2/0 Memset (Device) [4000, 5000) sets 16",
    );
    // A Triton operator states a stream and is none the less on the host.
    check(
        r#"{"ph": "X", "cat": "cpu_op", "name": "triton_poi", "pid": 4, "tid": 4, "ts": 0, "dur": 4, "args": {"External id": 3, "stream": 0}}"#,
        "host 4/4 triton_poi [0, 4000)",
    );
    // Ranges of the framework stood among the operators.
    check(
        r#"{"ph": "X", "cat": "Operator", "name": "ProfilerStep#5", "pid": 4, "tid": "4", "ts": 0, "dur": 4, "args": {}}"#,
        "range 4/4 ProfilerStep#5 [0, 4000)",
    );
    check(
        r#"{"ph": "X", "cat": "user_annotation", "name": "enumerate(DataLoader)#_Single.__next__", "pid": 4, "tid": 4, "ts": 0, "dur": 4},
           {"ph": "X", "cat": "python_function", "name": "f(1): {\"", "pid": 4, "tid": 4, "ts": 0, "dur": 4, "args": {"Python id": 1}},
           {"ph": "s", "id": 1, "pid": 4, "tid": 4, "ts": 0, "cat": "ac2g", "name": "ac2g"},
           {"ph": "X", "cat": "gpu_user_annotation", "name": "x", "pid": 0, "tid": 7, "ts": 0, "dur": 1, "args": {"External id": 5}},
           {"ph": "X", "cat": "cuda_sync", "name": "Stream Sync", "pid": 0, "tid": 7, "ts": 0, "dur": 1, "args": {"stream": 7, "correlation": 5}}"#,
        "range 4/4 enumerate(DataLoader)#_Single.__next__ [0, 4000)",
    );
    check(
        r#"{"ph": "i", "s": "t", "name": "[memory]", "pid": 4, "tid": 4, "ts": 1.5, "args": {"Device Type": 1, "Device Id": 0, "Bytes": -512, "Total Allocated": 1024, "Total Reserved": 2048}},
           {"ph": "i", "s": "t", "name": "[memory]", "pid": 4, "tid": 4, "ts": 2, "args": {"Device Type": 0, "Device Id": -1, "Bytes": 4}}"#,
        "memory Some(0) -512 at 1500 (Some(1024), Some(2048)); memory None 4 at 2000 (None, None)",
    );
    check(
        r#"{"ph": "X", "cat": "mtia_ccp_events", "name": "dma", "pid": 9, "tid": 8, "ts": 1, "dur": 1}"#,
        "device 9 is MTIA; lost 1 events of MTIA devices, whose work is not read",
    );
}

#[test]
fn collectives_and_launches() {
    check(
        r#"{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_Generic", "pid": 2, "tid": 4, "ts": 1, "dur": 1, "args": {"device": 2, "stream": 4, "grid": [2, 1, 1], "block": [256, 1, 1], "Collective name": "allreduce", "In msg nelems": 9600, "Out msg nelems": 9601, "Group size": 8, "dtype": "BFloat16", "Process Group Name": "0", "Process Group Ranks": "[0, 1", "Seq": 12}}"#,
        "2/4 ncclDevKernel_Generic [1000, 2000) allreduce 9600 to 9601 BFloat16 among 8 of 0 as 12 in [2, 1, 1]",
    );
    check(
        r#"{"ph": "X", "cat": "kernel", "name": "k", "pid": 2, "tid": 4, "ts": 1, "dur": 1, "args": {"device": 2, "stream": 4, "grid": [2, 3, 4], "block": [256, 1, 1], "registers per thread": 16, "shared memory": 512, "blocks per SM": 0.5, "est. achieved occupancy %": 31}}"#,
        "2/4 k [1000, 2000) grid [2, 3, 4] block [256, 1, 1] registers Some(16) shared Some(512) a SM Some(0.5) % Some(31.0)",
    );
}

#[test]
fn what_stands_beside_the_events() {
    let beside = r#""distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8, "nccl_version": "2.22.3"}, "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85018279936, "computeMajor": 9, "computeMinor": 0, "warpSize": 32, "numSms": 132}], "cuda_runtime_version": 12040, "baseTimeNanoseconds": 1751410836000000000"#;
    let expect = "0/7 k [5000, 7000); rank 3 of Some(8) by nccl; NVIDIA H100 80GB HBM3: 85018279936 bytes, 132 SMs, (9, 0); NCCL 2.22.3; CUDA 12.4; epoch 1751410836000000000";
    check_file(
        &format!("{{{beside}, \"traceEvents\": [{KERNEL}]}}"),
        expect,
    );
    check_file(
        &format!("{{\"traceEvents\": [{KERNEL}], {beside}}}"),
        expect,
    );
    check_file(&format!("\u{feff} [{KERNEL}\n]\n"), "0/7 k [5000, 7000)");
    check_file(
        &format!("{{\"traceEvents\": [{KERNEL}], \"distributedInfo\": {{}}}}"),
        "0/7 k [5000, 7000)",
    );
    check_file(
        &format!("{{\"traceEvents\": [{KERNEL}], \"deviceProperties\": NaN}}"),
        "0/7 k [5000, 7000); lost 1 `deviceProperties`, which is not what the profiler writes",
    );
}

#[test]
fn damaged_events() {
    let kernel = |from: &str, to: &str| KERNEL.replace(from, to);
    let second = "{\"traceEvents\": [".len() + KERNEL.len() + ", ".len();
    for (event, lost) in [
        (
            kernel("\"dur\": 2", "\"dur\": -2"),
            "spans of negative duration",
        ),
        (
            kernel(", \"dur\": 2", ""),
            "spans without a duration (`dur`)",
        ),
        (kernel("\"ts\": 5, ", ""), "spans without a start (`ts`)"),
        (
            kernel("\"ts\": 5", "\"ts\": NaN"),
            "spans whose start or duration is no number within 64 bits of nanoseconds",
        ),
        (
            kernel("\"dur\": 2", "\"dur\": Infinity"),
            "spans whose start or duration is no number within 64 bits of nanoseconds",
        ),
        (
            kernel("\"ts\": 5", "\"ts\": 99999999999999999999"),
            "spans whose start or duration is no number within 64 bits of nanoseconds",
        ),
        (
            kernel(
                "\"ts\": 5, \"dur\": 2",
                "\"ts\": 9223372036854775, \"dur\": 9223372036854775",
            ),
            "spans that end beyond 64 bits of nanoseconds",
        ),
        (
            kernel("\"ph\": \"X\", ", ""),
            "events without a phase (`ph`)",
        ),
        (kernel("\"tid\": 7", "\"tid\" 7"), "events that are no JSON"),
        ("17".into(), "elements of `traceEvents` that are no objects"),
    ] {
        check(
            &format!("{KERNEL}, {event}, {KERNEL}"),
            &format!(
                "0/7 k [5000, 7000); 0/7 k [5000, 7000); lost 1 {lost} at event 2 (byte {second})"
            ),
        );
    }
}

#[test]
fn names_with_bare_quotes() {
    for (name, kept) in [
        (r#"a "b" c"#, "a \"b\" c"),
        (r#"a "b"#, "a \"b"),
        (r#"f("a", b)"#, "f(\"a\", b)"),
    ] {
        let event = KERNEL.replace("\"name\": \"k\"", &format!("\"name\": \"{name}\""));
        check(
            &format!("{KERNEL}, {event}, {KERNEL}"),
            &format!(
                "0/7 k [5000, 7000); 0/7 {kept} [5000, 7000); 0/7 k [5000, 7000); lost 1 names with quotes that are not escaped; they were kept"
            ),
        );
    }
    let escaped = KERNEL.replace("\"name\": \"k\"", r#""name": "a \"b\" \u00e9""#);
    check(&escaped, "0/7 a \"b\" é [5000, 7000)");
}

/// A file that keeps few of the operators and calls that their numbers count is a sample; CUPTI numbers
/// many calls that are never recorded, and joined windows leave a jump.
#[test]
fn a_sample_is_told_by_its_numbers() {
    let lacks = |operators: u64, calls: u64, jump: u64| -> Vec<String> {
        let span = |category: &str, key: &str, at: u64, number: u64| {
            format!(
                r#"{{"ph":"X","cat":"{category}","name":"x","pid":1,"tid":1,"ts":{at},"dur":1,"args":{{"{key}":{number}}}}}"#
            )
        };
        let of = |at: u64| {
            let after = if at >= 300 { jump } else { 0 };
            let operator = span("cpu_op", "External id", at * 9, after + at * operators);
            operator
                + ","
                + &span(
                    "cuda_runtime",
                    "correlation",
                    at * 9 + 4,
                    after + at * calls,
                )
        };
        let events: Vec<String> = (1..=600).map(of).collect();
        let text = format!(r#"{{"traceEvents":[{}]}}"#, events.join(","));
        let lacks = read_text(&text).expect("a trace").lacks;
        lacks.into_iter().map(|lack| lack.place).collect()
    };
    let sample = "98 % of the operators that their numbers count (it has 600)";
    assert_eq!(lacks(50, 90, 0), [sample]);
    for (operators, calls, jump) in [(1, 9, 0), (50, 9, 0), (1, 90, 0), (2, 90, 1_000_000)] {
        assert!(
            lacks(operators, calls, jump).is_empty(),
            "{operators} {calls} {jump}"
        );
    }
}

#[test]
fn the_last_of_equal_keys_counts() {
    check(
        &KERNEL.replace("\"ts\": 5", "\"ts\": 1, \"ts\": 5"),
        "0/7 k [5000, 7000)",
    );
}

#[test]
fn files_that_end_early_or_are_something_else() {
    let whole = format!("{{\"traceEvents\": [{KERNEL}, {KERNEL}");
    check_file(
        &whole,
        "0/7 k [5000, 7000); 0/7 k [5000, 7000); lost 1 the end of the file: it is cut off after 323 bytes",
    );
    check_file(
        whole.get(..300).expect("it is longer"),
        "0/7 k [5000, 7000); lost 1 the end of the file: it is cut off after 171 bytes",
    );
    check_file("{\"traceEvents\": []}", "lost 0 events: there are none");
    check_file(
        &format!("[{KERNEL}] x"),
        "0/7 k [5000, 7000); lost 1 bytes after the end of the trace",
    );
    check_file("", "error: the file is empty");
    check_file("  ", "error: the file is empty");
    check_file(
        "hello",
        "error: not a trace of the PyTorch profiler: neither `{` nor `[` at byte 0",
    );
    check_file(
        "{\"a\": 1}",
        "error: not a trace of the PyTorch profiler: no `traceEvents` before the end at byte 8",
    );
    check_file(
        "{\"traceEvents\": null}",
        "error: not a trace of the PyTorch profiler: `traceEvents` that is no array at byte 16",
    );
    check_file(
        "{\"deviceProperties\": [{\"id\": 0",
        "error: the file ends after 30 bytes, before its events (`traceEvents`) begin",
    );
    let deep = format!("{{\"ph\": \"X\", \"args\": {}", "[".repeat(100_000));
    check(
        &format!("{deep}, {KERNEL}"),
        "0/7 k [5000, 7000); lost 1 events that are no JSON at event 1 (byte 17)",
    );
    let read = "{\"traceEvents\": [".len() + deep.len() + 2;
    check_file(
        &format!("{{\"traceEvents\": [{deep}]}}"),
        &format!("error: the file ends after {read} bytes, before its first event is whole"),
    );
    for cut in ["[", "[{\"ph\": \"X\"", "{\"traceEvents\": ["] {
        let told = format!(
            "error: the file ends after {} bytes, before its first event is whole",
            cut.len()
        );
        check_file(cut, &told);
    }
}

/// The forward operator that each operator of a backward pass is linked to, by name.
fn gradients(events: &[String]) -> Vec<(String, Option<String>)> {
    let timeline = read_text(&format!("[{}]", events.join(", "))).expect("a trace");
    let name = |index: gpuwise_domain::profile::timeline::Index| {
        let span = timeline.operators.get(index.get()?)?;
        Some(format!(
            "{}@{}",
            timeline.names.text(span.name),
            span.start_ns
        ))
    };
    let all = timeline.backward.iter();
    all.map(|one| (name(one.operator).expect("it is there"), name(one.forward)))
        .collect()
}

#[test]
fn gradients_are_linked_by_the_number_of_their_node() {
    let operator = |name: &str, thread: u32, at: u32, sequence: u32, recorded_by: u32| {
        format!(
            r#"{{"ph": "X", "cat": "cpu_op", "name": "{name}", "pid": 4, "tid": {thread}, "ts": {at}, "dur": 1, "args": {{"External id": {at}, "Sequence number": {sequence}, "Fwd thread id": {recorded_by}}}}}"#
        )
    };
    let engine = |at: u32| {
        format!(
            r#"{{"ph": "X", "cat": "cpu_op", "name": "autograd::engine::evaluate_function: AccumulateGrad", "pid": 4, "tid": 9, "ts": {at}, "dur": 1, "args": {{"External id": {at}}}}}"#
        )
    };
    let said = |one: &str, forward: Option<&str>| (one.to_owned(), forward.map(str::to_owned));
    let events = [
        // The number that is next stands at the operator and at what it calls: the innermost recorded it.
        operator("aten::linear", 4, 10, 7, 0),
        operator("aten::addmm", 4, 11, 7, 0),
        operator("aten::relu", 4, 20, 8, 0),
        // Another thread counts by itself; and the same number comes again in the next step.
        operator("aten::copy_", 5, 15, 7, 0),
        operator("ReluBackward0", 9, 30, 8, 1),
        operator("AddmmBackward0", 9, 40, 7, 1),
        engine(50),
        operator("OldBackward0", 9, 60, 3, 1),
        operator("aten::addmm", 4, 70, 7, 0),
    ];
    assert_eq!(
        gradients(&events),
        [
            said("ReluBackward0@30000", Some("aten::relu@20000")),
            said("AddmmBackward0@40000", Some("aten::addmm@11000")),
            said(
                "autograd::engine::evaluate_function: AccumulateGrad@50000",
                None
            ),
            said("OldBackward0@60000", None),
        ]
    );
    // Under a checkpoint nothing is recorded but the checkpoint: all within has its number.
    let events = [
        operator("CheckpointFunction", 4, 10, 7, 0),
        operator("aten::relu", 4, 20, 7, 0),
        operator("CheckpointFunctionBackward", 9, 40, 7, 1),
    ];
    assert_eq!(
        gradients(&events),
        [said(
            "CheckpointFunctionBackward@40000",
            Some("CheckpointFunction@10000")
        )]
    );
    // Two threads that fit equally well: which one it was is unknown.
    let events = [
        operator("aten::mm", 4, 10, 7, 0),
        operator("aten::mm", 5, 11, 7, 0),
        operator("MmBackward0", 9, 40, 7, 1),
    ];
    assert_eq!(gradients(&events), [said("MmBackward0@40000", None)]);
}
