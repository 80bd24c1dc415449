//! The all-to-all of expert parallelism, by library and phase.

use super::{Case, Ideal, Operator, Point, Work, collective::HOSTS};
use crate::{
    OperatorError, Row, Silicon,
    grid::{Axis, Tensors},
};
use alloc::{format, string::String};
use gpuwise_domain::engine::EngineKind;

/// log2 of tokens per rank, of the hidden width, of experts per token, of experts, of ranks, of SMs
/// that the library takes.
const TOKENS: usize = 0;
const HIDDEN: usize = 1;
const CHOSEN: usize = 2;
const EXPERTS: usize = 3;
const RANKS: usize = 4;
const SMS: usize = 5;

const TOKENS_COARSE: Axis = (TOKENS, &[0.0, 6.0, 10.0, 13.0, 17.0]);

const TENSORS: Tensors = &[
    &[
        (
            TOKENS,
            &[
                0.0, 2.0, 4.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 17.0,
            ],
        ),
        (RANKS, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
    ],
    &[
        (SMS, &[2.0, 3.0, 3.585, 4.0, 4.322, 4.585, 6.0]),
        TOKENS_COARSE,
    ],
    &[(HIDDEN, &[11.0, 12.0, 12.585, 12.808]), TOKENS_COARSE],
    &[(CHOSEN, &[0.0, 1.0, 2.0, 3.0, 4.46]), TOKENS_COARSE],
    &[(EXPERTS, &[3.0, 6.0, 8.0, 9.0]), TOKENS_COARSE],
];

pub const EXCHANGE: Operator = Operator {
    name: "comm_moe",
    shape: &[
        "op", "phase", "nodes", "gpus", "hidden", "topk", "experts", "sms", "tokens",
    ],
    grids: &[TENSORS],
    read,
    like,
    hosts: HOSTS,
    smooth: 0.3,
};

/// Seconds of a phase of a few tokens.
const START: f64 = 8e-6;
/// SMs that libraries take where a row leaves the choice to them.
const DEFAULT_SMS: f64 = 20.0;
/// Bytes per second and GPU between nodes: 400 Gbit/s.
const BETWEEN_NODES: f64 = 50e9;

/// Of the bytes stated, those that surely travel: labels do not tell FP4 from BF16 on every way.
pub(crate) const SLIMMEST: f64 = 0.25;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exchange {
    /// GPUs that hold experts.
    pub ranks: f64,
    /// GPUs that the fast link joins.
    pub joined: f64,
    /// Elements of a token.
    pub hidden: f64,
    /// Bytes of an element as it travels.
    pub bytes: f64,
    /// Experts of a token, and in all.
    pub chosen: f64,
    pub experts: f64,
    /// SMs that the library takes; 0 leaves the choice to it.
    pub sms: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Tokens of prompts to their experts.
    DispatchMany,
    /// The way back of many tokens a rank: outputs of experts, summed.
    CombineMany,
    /// Tokens of decode steps to their experts.
    DispatchFew,
    /// The way back of few tokens a rank.
    CombineFew,
}

impl Phase {
    /// In the order in which a layer passes them.
    pub const ALL: [Self; 4] = [
        Self::DispatchMany,
        Self::CombineMany,
        Self::DispatchFew,
        Self::CombineFew,
    ];
}

/// Bytes of an element as it travels, with its scales.
pub(crate) fn element_bytes(dtype: &str) -> f64 {
    match dtype {
        "fp8" => 1.03,
        "nvfp4" | "fp4" => 0.5625,
        _ => 2.0,
    }
}

/// The lane's format of a phase under an engine: the library that it takes for this many tokens.
pub(crate) const fn label(engine: EngineKind, phase: Phase) -> &'static str {
    match (engine, phase) {
        (EngineKind::Vllm, Phase::DispatchMany) => "deepep_ht/dispatch/default",
        (EngineKind::Vllm, Phase::CombineMany) => "deepep_ht/combine/default",
        (EngineKind::Vllm, Phase::DispatchFew) => "deepep_ll/dispatch/default",
        (EngineKind::Vllm, Phase::CombineFew) => "deepep_ll/combine/default",
        (EngineKind::TensorRtLlm, Phase::DispatchMany) => "trtllm_deepep_ht/dispatch/bfloat16",
        (EngineKind::TensorRtLlm, Phase::CombineMany) => "trtllm_deepep_ht/combine/bfloat16",
        (EngineKind::TensorRtLlm, Phase::DispatchFew) => "trtllm_deepep_ll/dispatch/bfloat16",
        (EngineKind::TensorRtLlm, Phase::CombineFew) => "trtllm_deepep_ll/combine/bfloat16",
        (_, Phase::DispatchMany) => "deepep_normal/dispatch/fp8",
        (_, Phase::CombineMany) => "deepep_normal/combine/bfloat16",
        (_, Phase::DispatchFew) => "deepep_ll/dispatch/fp8",
        (_, Phase::CombineFew) => "deepep_ll/combine/bfloat16",
    }
}

/// The work of tokens per rank: each travels once to every rank that holds one of its experts.
pub fn work(silicon: &Silicon, exchange: &Exchange, tokens: f64) -> Work {
    let ranks = exchange.ranks.max(2.0);
    let missed = libm::pow(1.0 - 1.0 / ranks, exchange.chosen);
    let reached = ranks * (1.0 - missed);
    let others = reached * (ranks - 1.0) / ranks;
    let beyond = (1.0 - exchange.joined / ranks).max(0.0);
    let token = exchange.hidden * exchange.bytes;
    let near = tokens * others * (1.0 - beyond) * token / silicon.link;
    let far = tokens * others * beyond * token / BETWEEN_NODES;
    let sms = if exchange.sms > 0.0 {
        exchange.sms
    } else {
        DEFAULT_SMS
    };
    Work {
        ideal: Ideal::Seconds(near + far + START * silicon.launch()),
        compute: 0.0,
        memory: SLIMMEST * near,
        at: Point::new([
            libm::log2(tokens),
            libm::log2(exchange.hidden),
            libm::log2(exchange.chosen),
            libm::log2(exchange.experts),
            libm::log2(ranks),
            libm::log2(sms),
        ]),
    }
}

fn read(row: &Row<'_>, silicon: &Silicon) -> Result<Case, OperatorError> {
    let (op, phase, dtype) = (row.text("op")?, row.text("phase")?, row.text("dtype")?);
    let rack = row.text("system")?.starts_with("gb");
    // The source does not say how many; those of a node.
    let ranks = match row.count("gpus")? {
        0.0 if rack => 4.0,
        0.0 => 8.0,
        gpus => gpus,
    };
    let exchange = Exchange {
        ranks,
        joined: if rack { 72.0 } else { 8.0 },
        hidden: row.size("hidden")?,
        bytes: element_bytes(dtype),
        chosen: row.size("topk")?,
        experts: row.size("experts")?,
        sms: row.count("sms")?,
    };
    Ok(Case {
        format: format!("{op}/{phase}/{dtype}"),
        work: work(silicon, &exchange, row.size("tokens")?),
        model: String::new(),
        outside: None,
    })
}

fn like(format: &str) -> &'static [&'static str] {
    match (format.contains("dispatch"), format.contains("_ll")) {
        (true, true) => &["deepep_ll/dispatch/fp8", "deepep_ll/dispatch/default"],
        (true, false) => &["deepep_normal/dispatch/fp8", "deepep_ht/dispatch/default"],
        (false, true) => &["deepep_ll/combine/bfloat16", "deepep_ll/combine/default"],
        (false, false) => &[
            "deepep_normal/combine/bfloat16",
            "deepep_ht/combine/default",
        ],
    }
}
