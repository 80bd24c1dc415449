//! A stage of a pipeline that waits for its neighbours between micro-batches.

use crate::findings::{
    ledger::{Cause, Ledger},
    lost::{Lost, percent},
    rule::{Profile, Rank, Row, Rule, evidence},
};
use gpuwise_domain::profile::{
    finding::{Finding, FindingDefinition},
    timeline::{Detail, Timeline, Work},
};
use gpuwise_size::training::time::pipeline_waiting;
use std::collections::BTreeMap;

const CAUSE: Cause = Cause("pipeline_bubbles");

const SHARE: Row = Row {
    name: "pipeline_share",
    value: 0.05,
    unit: "share of the span",
    meaning: "time that a stage waits for its neighbours, from which bubbles are said",
    source: "-",
};

const KERNELS: Row = Row {
    name: "pipeline_kernels",
    value: 8.0,
    unit: "kernels that compute for each transfer",
    meaning: "from which transfers are those of a pipeline's stages: attention over several ranks sends after each block",
    source: "-",
};

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "pipeline_bubbles",
        title: "pipeline bubbles",
        signal: "Kernels that send to or receive from one other rank (`ncclDevKernel_SendRecv` of `send` or `recv`, or under the ranges of Megatron or DeepSpeed for them; never those of an all-to-all) run without computation beside them for longer than the quickest of as many elements, in all `pipeline_share` of the span or more, and `pipeline_kernels` or more compute for each of them.",
        advice: "More micro-batches a step, interleaved stages (virtual pipeline), a schedule that fills the bubbles with gradients of weights; stages of equal work.",
        gain: "high: 3/4 of the waiting (four virtual stages a rank, or four times as many micro-batches), of no more than (p − 1)/m of the time that p stages compute on m micro-batches where both are known; low: half of it (twice as many), 0 where p or m is not known.",
        source: "Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM (2021), section 2.2; the engine of `gpuwise train`",
    },
    thresholds: &[SHARE, KERNELS],
    charge,
    find,
    ..Rule::EMPTY
};

/// How many times as many virtual stages or micro-batches the ends of the gain stand for.
const INTERLEAVED: (f64, f64) = (2.0, 4.0);

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    Lost::said(profile, CAUSE, &SHARE, |lost| {
        let most = |figure: &str| lost.noted(figure).iter().copied().fold(0.0, f64::max);
        let (stages, batches) = (most("stages"), most("micro_batches"));
        let waited = lost.of_the_time();
        let mut more = vec![evidence("transfers", most("transfers"), "count", None)];
        let known = stages >= 2.0 && batches >= 1.0;
        let predicted = pipeline_waiting(stages as u64, batches.max(1.0), 1.0);
        let schedule = if known {
            let share = predicted / (1.0 + predicted);
            more.push(evidence("stages", stages, "count", None));
            more.push(evidence("micro_batches", batches, "count", None));
            more.push(evidence(
                "predicted_bubble_share",
                share,
                "share of the step",
                None,
            ));
            format!(
                "{stages} stages with {batches} micro-batches a step wait {} by themselves, more is of stages whose work differs",
                percent(share)
            )
        } else {
            "how many stages and micro-batches there are is not in the trace".to_owned()
        };
        let statement =
            format!("Stages of the pipeline wait for their neighbours for {waited}; {schedule}");
        lost.finding(1.0, statement, &[&advice(profile, batches)], more)
    })
}

fn advice(profile: &Profile<'_>, batches: f64) -> String {
    let more = if batches >= 1.0 {
        format!("more micro-batches a step ({batches} now)")
    } else {
        "more micro-batches a step".to_owned()
    };
    let amd = if profile.stack.is_amd() {
        " (the same flags in Megatron for ROCm)"
    } else {
        ""
    };
    format!(
        "Take {more}: smaller ones of the same batch, or a larger batch; Megatron: `--micro-batch-size`, and `--num-layers-per-virtual-pipeline-stage` to interleave stages{amd}; DeepSpeed: `gradient_accumulation_steps`; torch.distributed.pipelining: `ScheduleInterleaved1F1B` or `ScheduleInterleavedZeroBubble`. Fewer stages where memory allows it: `gpuwise train` compares layouts. Where one stage computes longer than others, move layers off it (embedding and head count)."
    )
}

/// A kernel that sends to or receives from one other rank.
struct Transfer {
    place: usize,
    start: i64,
    end: i64,
    /// What the quickest of its like is known by.
    elements: (u32, Option<u64>),
}

fn charge(rank: &Rank<'_>, ledger: &mut Ledger<'_>) {
    let named = Named::of(rank.timeline);
    let transfers = transfers(rank, &named);
    if transfers.is_empty() {
        return;
    }
    let computing = rank.ordered.kernels(rank.timeline).count() as f64;
    if computing < rank.limits.of(&KERNELS) * transfers.len() as f64 {
        return;
    }
    let mut quickest: BTreeMap<(u32, Option<u64>), i64> = BTreeMap::new();
    for one in &transfers {
        let ns = one.end - one.start;
        let known = quickest.entry(one.elements).or_insert(ns);
        *known = ns.min(*known);
    }
    let exposed = &rank.ordered.only_communicating;
    let mut until = i64::MIN;
    let mut waits: Vec<(usize, i64)> = Vec::new();
    for one in &transfers {
        let from = one.start.max(until);
        until = until.max(one.end);
        let moving = quickest.get(&one.elements).copied().unwrap_or(0);
        let waited = exposed.overlap_range(from, one.end.max(from)) - moving;
        if waited > 0 {
            waits.push((one.place, waited));
        }
    }
    let (stages, batches) = (named.stages(rank), Named::micro_batches(rank.timeline));
    let all: i64 = waits.iter().map(|(_, ns)| *ns).sum();
    let computed = rank.ordered.computing.length() as f64;
    // What the schedule alone makes a stage wait.
    let part = stages.zip(batches).map(|(stages, batches)| {
        let expected = computed * pipeline_waiting(stages, batches, 1.0);
        (expected / (all as f64).max(1.0)).min(1.0)
    });
    let (few, many) = INTERLEAVED;
    for (place, ns) in waits {
        let removable = ns as f64 * part.unwrap_or(1.0);
        let low = part.map_or(0.0, |_| removable * (1.0 - 1.0 / few));
        let high = removable * (1.0 - 1.0 / many);
        ledger.charge_work(CAUSE, place, ns, (low as i64, high as i64));
        ledger.spare(place);
    }
    ledger.note(CAUSE, "transfers", transfers.len() as f64);
    ledger.note(CAUSE, "stages", stages.unwrap_or(0) as f64);
    ledger.note(CAUSE, "micro_batches", batches.unwrap_or(0.0));
}

fn transfers(rank: &Rank<'_>, named: &Named<'_>) -> Vec<Transfer> {
    let pieces = rank.ordered.pieces.iter().enumerate();
    let all = pieces.filter_map(|(place, &(start, end, index))| {
        let work = rank.timeline.work.get(index as usize)?;
        let communicates = rank.ordered.traits_of(work)?.communication;
        (communicates && named.is_transfer(work)).then(|| Transfer {
            place,
            start,
            end,
            elements: (work.name.0, named.elements(work)),
        })
    });
    all.collect()
}

/// Parts of names, in lower case, of what sends to or receives from one rank. Source: ProcessGroupNCCL.cpp
/// of pytorch/pytorch (`nccl:recv 1<-0`); megatron/core/pipeline_parallel/p2p_communication.py of
/// NVIDIA/Megatron-LM; deepspeed/runtime/pipe/engine.py of deepspeedai/DeepSpeed.
const TRANSFERS: [&str; 14] = [
    "nccl:send",
    "nccl:recv",
    "c10d::send",
    "c10d::recv",
    "recv_forward",
    "send_forward",
    "recv_backward",
    "send_backward",
    "forward-recv",
    "forward-send",
    "backward-recv",
    "backward-send",
    "pipe_recv",
    "pipe_send",
];

/// Names of the forward pass of one micro-batch: Megatron's ranges and timers, DeepSpeed's.
const FORWARD: [&str; 5] = [
    "forward_step",
    "forward-compute",
    "fwd_microstep",
    "forward_microstep",
    "pipe_fwd",
];

/// Ranges that say which work is of a pipeline.
struct Named<'a> {
    timeline: &'a Timeline,
    /// Ranges of transfers by thread: from, to.
    ranges: BTreeMap<u32, Vec<(i64, i64)>>,
}

impl<'a> Named<'a> {
    fn of(timeline: &'a Timeline) -> Self {
        let mut ranges: BTreeMap<u32, Vec<(i64, i64)>> = BTreeMap::new();
        for range in &timeline.annotations {
            if is_transfer(timeline.names.text(range.name)) {
                let own = ranges.entry(range.thread).or_default();
                own.push((range.start_ns, range.end_ns));
            }
        }
        for own in ranges.values_mut() {
            own.sort_unstable();
        }
        Self { timeline, ranges }
    }

    fn is_transfer(&self, work: &Work) -> bool {
        let name = self.timeline.names.text(work.name).to_ascii_lowercase();
        // Kernels of RCCL are called alike, whatever they do.
        if !(name.contains("sendrecv") || name.contains("devkernel_generic")) {
            return false;
        }
        if let Some(Detail::Collective(collective)) = self.timeline.detail_of(work)
            && let Some(name) = &collective.name
        {
            return matches!(name.as_str(), "send" | "recv" | "isend" | "irecv");
        }
        let operator = self.timeline.operator_of(work);
        let operator = operator.map(|operator| self.timeline.names.text(operator.name));
        if let Some(operator) = operator {
            if is_transfer(operator) {
                return true;
            }
            if operator.contains("all") {
                return false;
            }
        }
        let call = self.timeline.call_of(work);
        let call = call.or_else(|| self.timeline.operator_of(work));
        call.is_some_and(|call| {
            let own = self.ranges.get(&call.thread).map_or(&[][..], Vec::as_slice);
            let after = own.partition_point(|(from, _)| *from <= call.start_ns);
            let last = after.checked_sub(1).and_then(|place| own.get(place));
            last.is_some_and(|(_, to)| call.start_ns < *to)
        })
    }

    fn elements(&self, work: &Work) -> Option<u64> {
        match self.timeline.detail_of(work)? {
            Detail::Collective(collective) => collective.elements_in.max(collective.elements_out),
            _ => None,
        }
    }

    /// Ranks of the group within which is sent, where the file tells.
    fn stages(&self, rank: &Rank<'_>) -> Option<u64> {
        let works = rank.ordered.pieces.iter();
        let works = works.filter_map(|piece| self.timeline.work.get(piece.2 as usize));
        let sizes = works
            .filter(|work| {
                let traits = rank.ordered.traits_of(work);
                traits.is_some_and(|traits| traits.communication) && self.is_transfer(work)
            })
            .filter_map(|work| match self.timeline.detail_of(work)? {
                Detail::Collective(collective) => collective.group_size,
                _ => None,
            });
        sizes.max().filter(|size| *size >= 2).map(u64::from)
    }

    /// Forward passes of a step; else what is received from one rank a step.
    fn micro_batches(timeline: &Timeline) -> Option<f64> {
        let (mut steps, mut forward) = (0_u32, 0_u32);
        let mut peers: BTreeMap<&str, u32> = BTreeMap::new();
        for range in &timeline.annotations {
            let name = timeline.names.text(range.name);
            if name.starts_with("ProfilerStep#") {
                steps += 1;
            }
            let is_forward = FORWARD
                .iter()
                .any(|known| name.strip_prefix("megatron:").unwrap_or(name) == *known);
            forward += u32::from(is_forward);
            if name.starts_with("nccl:recv ") {
                *peers.entry(name).or_default() += 1;
            }
        }
        let steps = f64::from(steps.max(1));
        let most = peers.values().copied().max();
        let count = Some(forward).filter(|count| *count > 0).or(most)?;
        let each = (f64::from(count) / steps).round();
        (each >= 1.0).then_some(each)
    }
}

fn is_transfer(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    TRANSFERS.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{Made, check, found};
    use gpuwise_domain::profile::{
        finding::Gain,
        timeline::{Collective, Detail},
    };

    /// Eight micro-batches on the second of four stages: after ten kernels of 40 µs each it waits for the
    /// next for 140 µs, and once only for the 20 that the transfer takes.
    fn stage(made: &mut Made, collective: &str, hidden: bool) {
        let detail = made.detail(Detail::Collective(Collective {
            name: Some(collective.to_owned()),
            elements_in: Some(1 << 20),
            group_size: Some(4),
            ..Collective::default()
        }));
        for batch in 0..8 {
            let at = batch * 1000 + 2000;
            made.range("nccl:recv 1<-0", at - 1900, at - 1890);
            let long = if batch == 0 { 20 } else { 160 };
            let work = made.kernel("ncclDevKernel_SendRecv", at, at + long, 1895);
            work.detail = detail;
            work.stream = 1;
            let mut start = if hidden { at } else { at + long };
            for _ in 0..10 {
                made.kernel("some_kernel", start, start + 40, 1500);
                start += 40;
            }
            let last = if batch == 0 {
                "first_of_all"
            } else {
                "last_of_batch"
            };
            made.kernel(last, start, at + 999, 1500);
        }
    }

    #[test]
    fn pipeline_bubbles() {
        check(
            "pipeline_bubbles",
            |made| stage(made, "recv", false),
            |made| stage(made, "recv", true),
        );
        let mut made = Made::new();
        stage(&mut made, "all_to_allv", false);
        assert!(
            found(&[made])
                .iter()
                .all(|one| one.class != "pipeline_bubbles")
        );
    }

    /// Three of eleven parts are the schedule's: what was measured is less, and all of it.
    #[test]
    fn the_gain_is_what_interleaving_brings() {
        let mut made = Made::new();
        stage(&mut made, "recv", false);
        let found = found(&[made]);
        let finding = found
            .iter()
            .find(|one| one.class == "pipeline_bubbles")
            .expect("said");
        let of = |name: &str| {
            let one = finding.evidence.iter().find(|one| one.figure == name);
            one.map(|one| one.value)
        };
        assert_eq!((of("stages"), of("micro_batches")), (Some(4.0), Some(8.0)));
        let predicted = of("predicted_bubble_share").expect("told");
        assert!((predicted - 3.0 / 11.0).abs() < 1e-9, "{predicted}");
        assert_eq!(of("lost_ns"), Some(7.0 * 140_000.0));
        let Gain::Time { low, high } = finding.gain else {
            panic!("{:?}", finding.gain)
        };
        let span = 7999.0;
        assert!((low - 0.5 * 980.0 / span).abs() < 0.002, "{low}");
        assert!((high - 0.75 * 980.0 / span).abs() < 0.002, "{high}");
        // The same waiting is no communication.
        assert!(found.iter().all(|one| one.class != "communication"));
    }

    /// Attention over several ranks sends after every few kernels.
    #[test]
    fn a_ring_is_no_pipeline() {
        let mut made = Made::new();
        for round in 0..20 {
            let at = round * 200 + 2000;
            made.range("nccl:recv 1<-0", at - 1900, at - 1890);
            let long = if round == 0 { 20 } else { 100 };
            made.kernel("ncclDevKernel_SendRecv", at, at + long, 1895)
                .stream = 1;
            made.kernel("flash_fwd_kernel", at + long, at + 199, 1500);
        }
        assert!(
            found(&[made])
                .iter()
                .all(|one| one.class != "pipeline_bubbles")
        );
    }
}
