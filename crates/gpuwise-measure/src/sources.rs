//! Figures of files other than traces, one by one, as a database keeps them.

use gpuwise_domain::profile::figure::{Figure, Scope, Value};
use gpuwise_domain::profile::sources::{
    CategoryFigures, CountedFigures, CountersSource, MemorySource, Source, SourceContent,
};

/// Figures of sources. Exports of Nsight Systems and planes have theirs by their timelines.
pub fn figures(sources: &[Source]) -> Vec<Figure> {
    let mut list = Vec::new();
    for source in sources {
        match &source.content {
            SourceContent::Memory(memory) => of_memory(memory, &mut list),
            SourceContent::Categories(figures) => of_categories(figures, &mut list),
            SourceContent::Counters(counters) => of_counters(counters, &mut list),
            SourceContent::Nsight(_) | SourceContent::Planes(_) | SourceContent::Hangs(_) => {}
        }
    }
    list
}

fn add(list: &mut Vec<Figure>, scope: Scope, name: &str, value: Value) {
    list.push(Figure {
        name: name.to_owned(),
        scope,
        value,
    });
}

fn bytes(amount: u64) -> Value {
    Value::Integer(i64::try_from(amount).unwrap_or(i64::MAX))
}

fn of_memory(memory: &MemorySource, list: &mut Vec<Figure>) {
    let figures = &memory.figures;
    let mut whole = |name, value| add(list, Scope::default(), name, value);
    whole("allocator_reserved_bytes", bytes(figures.reserved));
    whole("allocator_allocated_bytes", bytes(figures.allocated));
    let rounding = figures.internal_fragmentation.map(Value::Integer);
    let no_request = "the file does not tell what was asked for";
    whole(
        "allocator_rounding_bytes",
        rounding.unwrap_or_else(|| Value::Unknown(no_request.into())),
    );
    whole("allocator_free_bytes", bytes(figures.free));
    whole(
        "allocator_largest_free_bytes",
        bytes(figures.largest_free_block),
    );
    if let Some(share) = figures.external_fragmentation() {
        whole("allocator_fragmentation_pct", Value::Real(100.0 * share));
    }
    for trace in &figures.traces {
        let scope = Scope {
            device: i64::try_from(trace.device).ok(),
            ..Scope::default()
        };
        let mut of_device = |name, value| add(list, scope.clone(), name, value);
        of_device("allocator_peak_bytes", Value::Integer(trace.peak_live));
        of_device(
            "allocator_slack_at_peak_bytes",
            Value::Integer(trace.slack_at_peak()),
        );
        of_device(
            "allocator_peak_reserved_bytes",
            Value::Integer(trace.peak_reserved),
        );
        if let Some(mean) = trace.mean_live {
            of_device("allocator_mean_bytes", Value::Real(mean));
        }
        of_device(
            "allocator_oom_count",
            bytes(trace.out_of_memory.len() as u64),
        );
    }
}

fn of_categories(figures: &CategoryFigures, list: &mut Vec<Figure>) {
    add(
        list,
        Scope::default(),
        "category_peak_bytes",
        Value::Integer(figures.peak_live),
    );
    for (category, amount) in &figures.categories_at_peak {
        let scope = Scope {
            part: Some(category.name().to_owned()),
            ..Scope::default()
        };
        add(list, scope, "category_peak_bytes", Value::Integer(*amount));
    }
}

/// Shares are weighted by time over launches that state both.
fn of_counters(counters: &CountersSource, list: &mut Vec<Figure>) {
    type Share = fn(&CountedFigures) -> Option<f64>;
    let shares: [(&str, Share); 4] = [
        ("counted_compute_pct", |figures| figures.compute_percent),
        ("counted_memory_pct", |figures| figures.memory_percent),
        ("counted_dram_pct", |figures| figures.dram_percent),
        ("counted_occupancy_pct", |figures| figures.occupancy_percent),
    ];
    let launches = bytes(counters.figures.len() as u64);
    add(list, Scope::default(), "counted_launches", launches);
    for (name, share) in shares {
        let (mut weighted, mut time) = (0.0, 0.0);
        for figures in &counters.figures {
            if let (Some(share), Some(duration)) = (share(figures), figures.duration_ns) {
                weighted += share * duration;
                time += duration;
            }
        }
        if time > 0.0 {
            add(list, Scope::default(), name, Value::Real(weighted / time));
        }
    }
}
