//! Alibaba's trace of generative serving (2026): a day of containers in steps of 57 s, one CSV file for
//! each thing that was measured.

use super::{
    FleetError,
    openb::{rows, wrong},
};
use gpuwise_domain::placement::{ServingDay, ServingHolder, ServingRequest};
use gpuwise_units::Nanoseconds;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Text of each file, with the name by which the user knows it.
#[derive(Debug, Clone, Copy)]
pub struct GenaiTexts<'a> {
    /// `queue_wait_ms`: `t_s,container,value`.
    pub queue: (&'a str, &'a str),
    /// `pipeline_load_ms`: base model, LoRA and ControlNet together.
    pub load: (&'a str, &'a str),
    /// `basemodel_load_ms`.
    pub base: (&'a str, &'a str),
    /// `pipeline_inference_ms`.
    pub run: (&'a str, &'a str),
    /// `gpu_mem_mib_5min`: `t_s,container,mean,max,samples`.
    pub memory: (&'a str, &'a str),
    /// `requests`: of its columns only `base_model`.
    pub requests: (&'a str, &'a str),
}

#[derive(Deserialize)]
struct EventRow {
    t_s: u32,
    container: Option<u32>,
    value: f64,
}

#[derive(Deserialize)]
struct MemoryRow {
    t_s: u32,
    container: u32,
    max: f64,
}

#[derive(Deserialize)]
struct RequestRow {
    #[serde(default)]
    base_model: String,
}

/// The longest wait or run that is believed, in ms: a day.
const LONGEST_MS: f64 = 86_400_000.0;
/// The most memory that is believed, in MiB: 1 TiB.
const MOST_MIB: f64 = 1_048_576.0;

/// What was recorded of a container in one step.
#[derive(Default, Clone, Copy)]
struct Step {
    queue: u64,
    load: u64,
    base: Option<u64>,
    run: Option<u64>,
}

/// Joins the files of a day. A record of inference is a request; waits recorded for the container in
/// its step belong to it, and those of steps without inference to the container's next request. Rows
/// without a container (of the gateway) are passed over, as are containers without a GPU.
///
/// # Errors
/// When a row is not of the form, or a time or memory is beyond belief.
pub fn read_genai_day(texts: &GenaiTexts<'_>) -> Result<ServingDay, FleetError> {
    let mut memory: BTreeMap<u32, Vec<(u32, u32)>> = BTreeMap::new();
    let (file, text) = texts.memory;
    for (line, row) in rows::<MemoryRow>(file, text)? {
        if !(0.0..=MOST_MIB).contains(&row.max) {
            let problem = format!("`max` is {}; expected MiB of a GPU", row.max);
            return Err(wrong(file, line, problem));
        }
        let mib = row.max.ceil() as u32;
        memory
            .entry(row.container)
            .or_default()
            .push((row.t_s, mib));
    }
    let mut steps: BTreeMap<(u32, u32), Step> = BTreeMap::new();
    events(texts.queue, &mut steps, |step, ns| step.queue += ns)?;
    events(texts.load, &mut steps, |step, ns| step.load += ns)?;
    events(texts.base, &mut steps, |step, ns| {
        step.base = step.base.max(Some(ns));
    })?;
    events(texts.run, &mut steps, |step, ns| step.run = Some(ns))?;
    let mut requests: BTreeMap<u32, Vec<ServingRequest>> = BTreeMap::new();
    let mut open: Option<(u32, Step)> = None;
    for ((container, step_s), step) in steps {
        let carried = open.take().filter(|(of, _)| *of == container);
        let carried = carried.map_or_else(Step::default, |(_, step)| step);
        let joined = Step {
            queue: carried.queue + step.queue,
            load: carried.load + step.load,
            base: carried.base.max(step.base),
            run: step.run,
        };
        match joined.run {
            None => open = Some((container, joined)),
            Some(run) => requests.entry(container).or_default().push(ServingRequest {
                step_s,
                queue: Nanoseconds(joined.queue),
                load: Nanoseconds(joined.load),
                base: joined.base.map(Nanoseconds),
                run: Nanoseconds(run),
            }),
        }
    }
    let holders = memory.into_iter().map(|(number, mut memory)| {
        memory.sort_unstable();
        ServingHolder {
            requests: requests.remove(&number).unwrap_or_default(),
            number,
            memory,
        }
    });
    Ok(ServingDay {
        holders: holders.collect(),
        popularity: popularity(texts.requests)?,
    })
}

fn events(
    (file, text): (&str, &str),
    steps: &mut BTreeMap<(u32, u32), Step>,
    put: impl Fn(&mut Step, u64),
) -> Result<(), FleetError> {
    for (line, row) in rows::<EventRow>(file, text)? {
        if !(0.0..=LONGEST_MS).contains(&row.value) {
            let problem = format!(
                "`value` is {}; expected milliseconds up to a day",
                row.value
            );
            return Err(wrong(file, line, problem));
        }
        if let Some(container) = row.container {
            let step = steps.entry((container, row.t_s)).or_default();
            put(step, (row.value * 1e6).round() as u64);
        }
    }
    Ok(())
}

fn popularity((file, text): (&str, &str)) -> Result<Vec<u32>, FleetError> {
    let mut asked: BTreeMap<String, u32> = BTreeMap::new();
    for (_, row) in rows::<RequestRow>(file, text)? {
        if !row.base_model.is_empty() {
            *asked.entry(row.base_model).or_default() += 1;
        }
    }
    let mut counts: Vec<u32> = asked.into_values().collect();
    counts.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
    Ok(counts)
}
