//! Figures one by one, as a database keeps them.

use gpuwise_domain::profile::{
    figure::{Figure, Scope, Value},
    figures::{
        CopyFigures, DeviceFigures, HostFigures, ProfileFigures, RankFigures, StepFigures, Weighted,
    },
    timeline::{Direction, MemoryKind, Needed},
};

/// All figures of a profile: ordered by rank, then the whole file before its devices, each in the
/// order of the definitions.
pub fn figures(profile: &ProfileFigures) -> Vec<Figure> {
    let mut list = Vec::new();
    for rank in &profile.ranks {
        of_rank(rank, &mut list);
    }
    if let Some(stragglers) = &profile.stragglers {
        for rank in &stragglers.ranks {
            let mut add = adder(&mut list, Some(rank.rank), None);
            add("straggler_last_count", count(rank.last_count));
            add("straggler_caused_ns", Value::Integer(rank.caused_ns));
            add("straggler_waited_ns", Value::Integer(rank.waited_ns));
        }
    }
    list
}

fn adder(
    list: &mut Vec<Figure>,
    rank: Option<u32>,
    device: Option<i64>,
) -> impl FnMut(&str, Value) {
    move |name, value| {
        list.push(Figure {
            name: name.to_owned(),
            scope: Scope {
                rank,
                device,
                part: None,
            },
            value,
        });
    }
}

fn part(
    list: &mut Vec<Figure>,
    scope: (Option<u32>, Option<i64>),
    part: &str,
    name: &str,
    value: Value,
) {
    list.push(Figure {
        name: name.to_owned(),
        scope: Scope {
            rank: scope.0,
            device: scope.1,
            part: Some(part.to_owned()),
        },
        value,
    });
}

fn count(value: u64) -> Value {
    i64::try_from(value).map_or(Value::Real(value as f64), Value::Integer)
}

fn unknown(reason: &str) -> Value {
    Value::Unknown(reason.to_owned())
}

fn real(value: Option<f64>, reason: &str) -> Value {
    value.map_or_else(|| unknown(reason), Value::Real)
}

/// A share in percent.
fn percent(part: i64, of: i64, reason: &str) -> Value {
    real((of > 0).then(|| 100.0 * part as f64 / of as f64), reason)
}

fn of_rank(rank: &RankFigures, list: &mut Vec<Figure>) {
    let from = list.len();
    of_device(rank.rank, &rank.whole, list);
    of_host(rank.rank, &rank.host, rank.steps.as_ref(), list);
    of_sequence(rank, list);
    of_flops(rank, list);
    for memory in &rank.memory {
        let mut add = adder(list, rank.rank, memory.device);
        let bytes =
            |value: Option<u64>| value.map_or_else(|| unknown("the file does not state it"), count);
        add("memory_peak_bytes", bytes(memory.peak_allocated));
        add(
            "memory_mean_bytes",
            real(memory.mean_allocated, "one event alone"),
        );
        add("memory_reserved_peak_bytes", bytes(memory.peak_reserved));
        add("memory_slack_bytes", bytes(memory.slack_at_peak));
    }
    for kind in &rank.collectives {
        let name = match kind.group_size {
            Some(size) => format!("{} of {size}", kind.name),
            None => kind.name.clone(),
        };
        let scope = (rank.rank, None);
        part(
            list,
            scope,
            &name,
            "collective_time_ns",
            Value::Integer(kind.sum_ns),
        );
        let reason = "the file states no bytes and group size";
        let bus = real(kind.bus_bandwidth, reason);
        part(list, scope, &name, "collective_bus_bytes_per_s", bus);
    }
    if let Some(path) = &rank.critical_path {
        for (cause, ns) in &path.by_cause {
            let scope = (rank.rank, None);
            part(
                list,
                scope,
                cause.name(),
                "critical_path_ns",
                Value::Integer(*ns),
            );
        }
    }
    if let [_, _, ..] = rank.devices.as_slice() {
        for device in &rank.devices {
            of_device(rank.rank, device, list);
        }
    }
    for figure in list.iter_mut().skip(from) {
        if let Some(place) = needs(&figure.name).iter().find_map(|one| rank.lack(*one)) {
            figure.value = Value::Unknown(format!("needs {place}, which the file has not"));
        }
    }
}

/// What a figure cannot be told without.
fn needs(figure: &str) -> &'static [Needed] {
    use Needed::{Calls, Copies, Kernels, Names};
    match figure {
        "span_ns"
        | "busy_ns"
        | "idle_ns"
        | "idle_pct"
        | "idle_overhead_ns"
        | "idle_without_overhead_ns"
        | "sub_us_kernels"
        | "lt_10us_kernels"
        | "kernel_time_ns"
        | "occupancy_pct"
        | "sm_efficiency_pct"
        | "concurrency_mean"
        | "two_or_more_ns" => &[Kernels],
        "idle_host_wait_ns"
        | "idle_in_call_ns"
        | "idle_kernel_wait_ns"
        | "idle_other_ns"
        | "idle_unlinked_ns"
        | "launch_bound_pct" => &[Kernels, Calls],
        "host_wait_loader_ns"
        | "host_wait_synchronisation_ns"
        | "host_wait_copy_calls_ns"
        | "host_wait_framework_ns"
        | "critical_path_ns" => &[Kernels, Calls, Names],
        "comm_union_ns"
        | "comm_pct"
        | "comm_comp_overlap_ns"
        | "comm_overlap_pct"
        | "exposed_comm_ns"
        | "comp_union_ns"
        | "kind_time_ns"
        | "sequence_kernels"
        | "sequence_count"
        | "sequence_covered_pct"
        | "sequence_median_ns"
        | "tensor_core_pct"
        | "tensor_core_unused_pct"
        | "tensor_core_unknown_pct"
        | "collective_time_ns"
        | "collective_bus_bytes_per_s"
        | "flops_counted_pct"
        | "flops_covered_pct"
        | "utilisation_at_least_pct"
        | "hfu_pct"
        | "mfu_pct" => &[Kernels, Names],
        "mem_union_ns" => &[Copies],
        "exposed_mem_ns" => &[Kernels, Copies],
        "launch_calls" | "launch_call_ns" | "synchronisation_calls" | "synchronisation_call_ns" => {
            &[Calls, Names]
        }
        "loader_wait_ns" | "loader_wait_pct" => &[Names],
        _ => &[],
    }
}

fn of_device(rank: Option<u32>, device: &DeviceFigures, list: &mut Vec<Figure>) {
    const NOTHING: &str = "nothing ran";
    let span = device.span_ns();
    let mut add = adder(list, rank, device.device);
    add("n_gpu_events", count(device.work_count));
    add("n_streams", Value::Integer(i64::from(device.stream_count)));
    add("span_ns", Value::Integer(span));
    add("busy_ns", Value::Integer(device.busy_ns));
    add("idle_ns", Value::Integer(device.idle_ns));
    add("idle_pct", percent(device.idle_ns, span, NOTHING));
    let idle = &device.idle;
    let without = device.idle_ns - idle.overhead_ns;
    add("idle_overhead_ns", Value::Integer(idle.overhead_ns));
    add("idle_without_overhead_ns", Value::Integer(without));
    let causes = idle.causes;
    for (name, ns) in [
        ("idle_host_wait_ns", idle.host_wait_ns),
        ("idle_in_call_ns", idle.in_call_ns),
        ("idle_kernel_wait_ns", idle.kernel_wait_ns),
        ("idle_other_ns", idle.other_ns),
        ("idle_unlinked_ns", idle.unlinked_ns),
        ("idle_edge_ns", idle.edge_ns),
        ("host_wait_loader_ns", causes.loader_ns),
        ("host_wait_synchronisation_ns", causes.synchronisation_ns),
        ("host_wait_copy_calls_ns", causes.copy_calls_ns),
        ("host_wait_framework_ns", causes.framework_ns),
    ] {
        add(name, Value::Integer(ns));
    }
    add(
        "launch_bound_pct",
        percent(device.launch_bound_ns(), span, NOTHING),
    );
    add("sub_us_kernels", count(device.below_1us));
    add("lt_10us_kernels", count(device.below_10us));
    let classes = device.classes;
    let none = "nothing communicated";
    let communication = classes.communication_ns;
    add("comm_union_ns", Value::Integer(communication));
    add("comm_pct", percent(communication, span, NOTHING));
    add("comm_comp_overlap_ns", Value::Integer(classes.overlap_ns));
    add(
        "comm_overlap_pct",
        percent(classes.overlap_ns, communication, none),
    );
    add(
        "exposed_comm_ns",
        Value::Integer(classes.exposed_communication_ns()),
    );
    add("comp_union_ns", Value::Integer(classes.computation_ns));
    add("mem_union_ns", Value::Integer(classes.memory_ns));
    add("exposed_mem_ns", Value::Integer(classes.exposed_memory_ns));
    let kernels = device.kernel_time_ns;
    add("kernel_time_ns", Value::Integer(kernels));
    let cores = device.tensor_cores;
    let no_kernel = "no kernel ran";
    add(
        "tensor_core_pct",
        percent(cores.used_ns, kernels, no_kernel),
    );
    add(
        "tensor_core_unused_pct",
        percent(cores.unused_ns, kernels, no_kernel),
    );
    add(
        "tensor_core_unknown_pct",
        percent(cores.unknown_ns, kernels, no_kernel),
    );
    let weighted =
        |value: Option<Weighted>| real(value.map(|value| value.mean), "the file does not state it");
    add("occupancy_pct", weighted(device.occupancy_percent));
    add("sm_efficiency_pct", weighted(device.sm_efficiency_percent));
    add("concurrency_mean", Value::Real(device.concurrency.mean));
    add(
        "two_or_more_ns",
        Value::Integer(device.concurrency.two_or_more_ns),
    );
    drop(add);
    of_parts((rank, device.device), device, list);
}

/// Kernels by kind and copies by direction.
fn of_parts(scope: (Option<u32>, Option<i64>), device: &DeviceFigures, list: &mut Vec<Figure>) {
    for kind in &device.kinds {
        part(
            list,
            scope,
            &kind.kind,
            "kind_time_ns",
            Value::Integer(kind.sum_ns),
        );
    }
    for copies in &device.copies {
        let name = copies_name(copies);
        part(list, scope, &name, "copy_count", count(copies.count));
        part(
            list,
            scope,
            &name,
            "copy_time_ns",
            Value::Integer(copies.sum_ns),
        );
        part(list, scope, &name, "copy_bytes", count(copies.bytes));
        let rate = real(copies.bytes_per_second(), "the file states no bytes");
        part(list, scope, &name, "copy_bytes_per_s", rate);
    }
}

fn of_host(
    rank: Option<u32>,
    host: &HostFigures,
    steps: Option<&StepFigures>,
    list: &mut Vec<Figure>,
) {
    let mut add = adder(list, rank, None);
    add("launch_calls", count(host.launches.count));
    add("launch_call_ns", Value::Integer(host.launches.sum_ns));
    let waits = &host.synchronisations;
    add(
        "synchronisation_calls",
        count(waits.iter().map(|calls| calls.count).sum()),
    );
    let waited = waits.iter().map(|calls| calls.sum_ns).sum();
    add("synchronisation_call_ns", Value::Integer(waited));
    let no_loader = "the file has no data loader's range";
    let loader = host.loader.as_ref();
    add(
        "loader_wait_ns",
        loader.map_or_else(
            || unknown(no_loader),
            |loader| Value::Integer(loader.wait_ns),
        ),
    );
    let Some(steps) = steps else { return };
    let lengths = steps
        .steps
        .iter()
        .map(|step| step.end_ns - step.start_ns)
        .sum();
    let share = match loader.and_then(|loader| loader.in_steps_ns) {
        Some(ns) => percent(ns, lengths, "steps have no length"),
        None => unknown(no_loader),
    };
    add("loader_wait_pct", share);
    add("steps", count(steps.steps.len() as u64));
    add("step_median_ns", Value::Integer(steps.median_ns));
    add("step_spread", real(steps.spread, "fewer than 4 steps"));
    let outliers = match steps.spread {
        Some(_) => count(steps.outliers.len() as u64),
        None => unknown("fewer than 4 steps"),
    };
    add("step_outliers", outliers);
}

/// What the busiest stream repeats.
fn of_sequence(rank: &RankFigures, list: &mut Vec<Figure>) {
    let sequence = rank.sequence.as_ref();
    let mut add = adder(list, rank.rank, None);
    let mut known = |name: &str, value: Option<Value>| {
        add(
            name,
            value.unwrap_or_else(|| unknown("no sequence of kernels repeats")),
        );
    };
    known(
        "sequence_kernels",
        sequence.map(|of| count(of.kernels.into())),
    );
    known("sequence_count", sequence.map(|of| count(of.count.into())));
    let covered = sequence.map(|of| Value::Real(100.0 * of.covered));
    known("sequence_covered_pct", covered);
    known(
        "sequence_median_ns",
        sequence.map(|of| Value::Integer(of.median_ns)),
    );
}

fn of_flops(rank: &RankFigures, list: &mut Vec<Figure>) {
    let flops = &rank.flops;
    let mut add = adder(list, rank.rank, None);
    let counted = percent(
        flops.counted_kernel_ns,
        flops.kernel_ns,
        "no kernel computed",
    );
    add("flops_counted_pct", counted);
    let eligible = "no kernel has countable work";
    add(
        "flops_covered_pct",
        percent(flops.counted_kernel_ns, flops.eligible_ns, eligible),
    );
    let least = flops.at_least.map(|share| share * 100.0);
    add(
        "utilisation_at_least_pct",
        real(least, flops.reason.as_deref().unwrap_or("nothing ran")),
    );
    let reason = flops.reason.as_deref().unwrap_or("nothing ran");
    add(
        "hfu_pct",
        real(flops.hfu.map(|share| share * 100.0), reason),
    );
    add(
        "mfu_pct",
        real(flops.mfu.map(|share| share * 100.0), reason),
    );
}

/// What copies are called as a part: `HtoD (pageable → device)`.
pub fn copies_name(copies: &CopyFigures) -> String {
    let direction = match copies.direction {
        Some(Direction::HostToDevice) => "HtoD",
        Some(Direction::DeviceToHost) => "DtoH",
        Some(Direction::DeviceToDevice) => "DtoD",
        Some(Direction::PeerToPeer) => "PtoP",
        Some(Direction::HostToHost) => "HtoH",
        Some(Direction::Unified) => "unified",
        None => "unknown direction",
    };
    let memory = |kind: MemoryKind| match kind {
        MemoryKind::Pageable => "pageable",
        MemoryKind::Pinned => "pinned",
        MemoryKind::Device => "device",
        MemoryKind::Managed => "managed",
        MemoryKind::Unknown => "?",
    };
    match (copies.source, copies.target) {
        (MemoryKind::Unknown, MemoryKind::Unknown) => direction.to_owned(),
        (source, target) => format!("{direction} ({} → {})", memory(source), memory(target)),
    }
}
