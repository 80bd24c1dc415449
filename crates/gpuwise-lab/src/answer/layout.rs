//! The parallel layout that a row states, and the readings of rows that contradict themselves.

use gpuwise_domain::{layout::Layout, question::Question};

/// A layout with what was read into the row to get it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StatedLayout {
    /// The layout, where the row states one.
    pub(crate) layout: Option<Layout>,
    /// GPUs in all, where stated.
    pub(crate) gpus: Option<u32>,
    /// Readings applied, in words.
    pub(crate) notes: Vec<String>,
    /// Whether the row contradicts itself.
    pub(crate) doubtful: bool,
    /// GPUs of a pool for prompts and answers, where tensor ranks can only mean that.
    pub(crate) pool: Option<u32>,
}

impl StatedLayout {
    /// A layout that nothing contradicts.
    pub(crate) const fn plain(
        layout: Option<Layout>,
        gpus: Option<u32>,
        notes: Vec<String>,
    ) -> Self {
        Self {
            layout,
            gpus,
            notes,
            doubtful: false,
            pool: None,
        }
    }
}

/// Reads the layout of an aggregated row.
///
/// `domain` is the number of GPUs that one link domain joins: tensor parallelism beyond it marks a
/// row whose GPUs were counted twice.
pub(crate) fn stated_layout(question: &Question, has_experts: bool, domain: u32) -> StatedLayout {
    let mut notes = Vec::new();
    let number = |key: &str| question.extra(key).and_then(|v| v.parse::<u32>().ok());
    if let Some(text) = question.extra("parallelism").or(question.extra("mapping")) {
        if let Some(layout) = named_layout(text, question.gpus) {
            return StatedLayout::plain(Some(layout), question.gpus, notes);
        }
        notes.push(format!("layout {text:?} was not understood"));
    }
    let Some(mut tensor) = question.tensor else {
        return StatedLayout::plain(None, question.gpus, notes);
    };
    let pipeline = question.pipeline.unwrap_or(1);
    let mut gpus = question.gpus;
    let (expert_tensor, expert) = (number("moe_tp").unwrap_or(0), number("moe_ep").unwrap_or(0));
    let mut attention_data = 1;
    let mut expert_groups = 1;
    let mut doubtful = false;
    let mut pool = None;
    if has_experts && expert_tensor * expert > 0 {
        let stated = tensor * question.data.unwrap_or(1);
        if question.data.is_some()
            && expert_tensor == expert
            && expert > 1
            && stated == expert * expert
        {
            // The same group is listed as tensor and as expert ranks, and the product as GPUs.
            notes.push(format!(
                "{stated} GPUs read as {expert}: equal moe_tp and moe_ep name one group of ranks"
            ));
            attention_data = if question.data.unwrap_or(1) > 1 {
                expert
            } else {
                1
            };
            tensor = expert / attention_data;
            expert_groups = expert;
            gpus = Some(expert);
        } else if question.data == Some(tensor) && tensor > 1 && expert == tensor * tensor {
            notes.push(format!(
                "{} GPUs read as {tensor}: tensor and data ranks name one group with data-parallel attention",
                tensor * tensor
            ));
            attention_data = tensor;
            expert_groups = tensor;
            gpus = Some(tensor);
            tensor = 1;
        } else {
            let stage = (tensor * question.data.unwrap_or(1)).max(expert_tensor * expert);
            attention_data = (stage / tensor).max(1);
            expert_groups = expert;
            if stage > gpus.unwrap_or(stage) {
                notes.push(format!(
                    "experts are spread over {stage} GPUs, more than the {} stated: read as data-parallel attention",
                    gpus.unwrap_or(0)
                ));
                gpus = Some(stage);
                doubtful = true;
            }
        }
    }
    if tensor > 8 {
        // No model is split over so many ranks: a rack whose GPUs are pooled for prompts and
        // decoding, with attention data-parallel.
        doubtful = true;
        pool = has_experts.then_some(tensor).filter(|_| tensor <= domain);
        let attention = if pool.is_some() {
            ""
        } else {
            " with data-parallel attention"
        };
        notes.push(format!(
            "tensor parallelism {tensor} read as a pool of {tensor} GPUs{attention}"
        ));
        attention_data = tensor;
        expert_groups = tensor;
        tensor = 1;
    }
    let replica = tensor * attention_data * pipeline;
    let mut replicas = 1;
    if let (Some(data), false) = (question.data, has_experts) {
        replicas = data.max(1);
    } else if let Some(all) = gpus {
        replicas = (all / replica.max(1)).max(1);
    }
    let layout = Layout {
        replicas,
        tensor,
        pipeline,
        attention_data,
        expert: expert_groups.max(1),
        decode_context: decode_context(question),
    };
    StatedLayout {
        layout: Some(layout),
        gpus,
        notes,
        doubtful,
        pool,
    }
}

/// `DCP8` in a note.
fn decode_context(question: &Question) -> u32 {
    question
        .extra("note")
        .and_then(|note| note.split("DCP").nth(1))
        .map(|rest| {
            rest.chars()
                .take_while(char::is_ascii_digit)
                .collect::<String>()
        })
        .and_then(|digits| digits.parse().ok())
        .unwrap_or(1)
}

/// `tp8`, `tep8` (tensor attention, expert parallel), `dep8` (data-parallel attention), `TP4PP2`.
fn named_layout(text: &str, gpus: Option<u32>) -> Option<Layout> {
    let lower = text.to_ascii_lowercase();
    let mut layout = Layout::SINGLE;
    let mut rest = lower.as_str();
    while !rest.is_empty() {
        let letters = rest.len()
            - rest
                .trim_start_matches(|c: char| c.is_ascii_alphabetic())
                .len();
        let (name, after) = rest.split_at(letters);
        let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let count: u32 = after[..digits]
            .parse()
            .ok()
            .filter(|n| (1..=1024).contains(n))?;
        match name {
            "tp" => layout.tensor = count,
            "pp" => layout.pipeline = count,
            "ep" => layout.expert = count,
            "dp" => layout.attention_data = count,
            "tep" => {
                layout.tensor = count;
                layout.expert = count;
            }
            "dep" => {
                layout.attention_data = count;
                layout.expert = count;
            }
            _ => return None,
        }
        rest = after[digits..].trim_start_matches(['_', '-', ' ', '+', 'x']);
    }
    layout.replicas = (gpus.unwrap_or(layout.replica_gpus()) / layout.replica_gpus()).max(1);
    Some(layout)
}
