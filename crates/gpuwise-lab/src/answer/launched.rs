//! What a row's launch command says: its flags count, and what it does not say is the engine's default.

use gpuwise_domain::{engine::EngineKind, layout::Layout, question::Question};

/// The flags of the launch command that a row states.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Launched<'q> {
    script: &'q str,
}

impl<'q> Launched<'q> {
    /// The command in `script`, where the row has one.
    pub(crate) fn of(question: &'q Question) -> Option<Self> {
        let script = question.extra("script")?;
        (!script.is_empty()).then_some(Self { script })
    }

    /// Whether a flag stands in it.
    fn has(&self, names: &[&str]) -> bool {
        self.words().any(|word| names.contains(&word))
    }

    fn words(&self) -> impl Iterator<Item = &'q str> {
        self.script
            .split_whitespace()
            .flat_map(|word| word.splitn(2, '='))
    }

    /// The number after the first of these flags that is given, as `--flag 8` or `--flag=8`.
    fn number(&self, names: &[&str]) -> Option<f64> {
        let mut words = self.words();
        words.find(|word| names.contains(word))?;
        words.next()?.parse().ok().filter(|n: &f64| *n > 0.0)
    }

    /// The layout of the one server that it starts.
    pub(crate) fn layout(&self, engine: EngineKind) -> Layout {
        let count = |names: &[&str]| self.number(names).map_or(1, |n| n.min(1024.0) as u32);
        let tensor = count(&[
            "-tp",
            "--tp",
            "--tp-size",
            "--tp_size",
            "--tensor-parallel-size",
        ]);
        let pipeline = count(&[
            "-pp",
            "--pp",
            "--pp-size",
            "--pp_size",
            "--pipeline-parallel-size",
        ]);
        let data = count(&["-dp", "--dp", "--dp-size", "--data-parallel-size"]);
        let expert = if self.has(&["--enable-expert-parallel"]) {
            tensor * data
        } else {
            count(&["--ep", "--ep-size", "--ep_size"])
        };
        if engine == EngineKind::Sglang {
            // Ranks of attention DP are some of the tensor ranks; without it they are replicas.
            let apart = self.has(&["--enable-dp-attention"]) && data > 1;
            let attention_data = if apart { data } else { 1 };
            return Layout {
                replicas: if apart { 1 } else { data },
                tensor: (tensor / attention_data).max(1),
                pipeline,
                attention_data,
                expert,
                ..Layout::SINGLE
            };
        }
        Layout {
            tensor,
            pipeline,
            attention_data: data,
            expert,
            ..Layout::SINGLE
        }
    }

    /// Tokens of a step at most.
    pub(crate) fn batched_tokens(&self) -> Option<u64> {
        let flags = [
            "--max-num-batched-tokens",
            "--max_num_tokens",
            "--chunked-prefill-size",
        ];
        self.number(&flags).map(|n| n as u64)
    }

    /// Sequences of a step at most.
    pub(crate) fn sequences(&self) -> Option<u64> {
        let flags = [
            "--max-num-seqs",
            "--max_batch_size",
            "--max-running-requests",
        ];
        self.number(&flags).map(|n| n as u64)
    }

    /// Tokens of one request at most.
    pub(crate) fn max_context(&self) -> Option<u64> {
        let flags = ["--max-model-len", "--max_seq_len", "--context-length"];
        self.number(&flags).map(|n| n as u64)
    }

    /// The share of memory that the engine may use.
    pub(crate) fn memory_fraction(&self) -> Option<f64> {
        self.number(&["--gpu-memory-utilization", "--mem-fraction-static"])
            .filter(|share| *share <= 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launched(script: &str) -> Launched<'_> {
        Launched { script }
    }

    #[test]
    fn flags_are_read_in_both_forms_and_defaults_are_one() {
        let one = launched("vllm serve openai/gpt-oss-120b --max-model-len 32768 -tp 4");
        assert_eq!(one.layout(EngineKind::Vllm), Layout::tensor(4));
        assert_eq!(one.max_context(), Some(32768));
        let bare = launched("trtllm-serve Qwen/Qwen3-14B --max_num_tokens=16384");
        assert_eq!(bare.layout(EngineKind::TensorRtLlm), Layout::SINGLE);
        assert_eq!(bare.batched_tokens(), Some(16384));
    }

    #[test]
    fn attention_ranks_of_sglang_are_some_of_the_tensor_ranks() {
        let apart = launched(
            "python3 -m sglang.launch_server --tp-size 8 --dp-size 8 --enable-dp-attention --ep-size 8",
        );
        let layout = apart.layout(EngineKind::Sglang);
        assert_eq!(
            (layout.tensor, layout.attention_data, layout.expert),
            (1, 8, 8)
        );
        assert_eq!(layout.gpus(), 8);
        // Without ranks the flag does nothing.
        let tensor = launched("python3 -m sglang.launch_server --tp-size 8 --enable-dp-attention");
        assert_eq!(tensor.layout(EngineKind::Sglang), Layout::tensor(8));
    }
}
