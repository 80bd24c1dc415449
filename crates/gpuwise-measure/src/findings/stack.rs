//! What a job runs on, and what it uses already: advice is chosen by it.

use gpuwise_domain::profile::timeline::{Format, Timeline};

/// Whose GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vendor {
    Nvidia,
    Amd,
    /// Neither: a TPU, an accelerator of another kind.
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framework {
    PyTorch,
    /// TensorFlow or JAX: what XLA compiles.
    Xla,
}

/// What a trace shows of vendor, framework and what is used; nothing is assumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stack {
    pub vendor: Option<Vendor>,
    pub framework: Option<Framework>,
    /// Kernels or regions of `torch.compile` are there.
    pub compiled: bool,
    /// Graphs are replayed.
    pub graphs: bool,
    /// The device is the smallest part that its board is divided into.
    pub smallest: bool,
}

/// What `torch.compile` calls its regions and kernels (pytorch torch/_dynamo, torch/_inductor).
const COMPILED: [&str; 6] = [
    "Torch-Compiled Region",
    "CompiledFxGraph",
    "CompiledFunction",
    "triton_poi_fused",
    "triton_red_fused",
    "triton_per_fused",
];

/// How products of the vendors are called.
const NVIDIA: [&str; 6] = ["nvidia", "tesla", "geforce", "quadro", "titan", "rtx"];
const AMD: [&str; 3] = ["amd", "instinct", "radeon"];

impl Stack {
    pub(super) fn of(timeline: &Timeline) -> Self {
        let names = || timeline.names.iter().map(|(_, name)| name);
        let of_devices = timeline.devices.iter().find_map(|device| {
            if device.other_kind.is_some() {
                return Some(Vendor::Other);
            }
            let name = device.name.as_ref()?.to_ascii_lowercase();
            let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
            match (has(&AMD), has(&NVIDIA)) {
                (true, _) => Some(Vendor::Amd),
                (_, true) => Some(Vendor::Nvidia),
                _ => None,
            }
        });
        let calls = timeline.calls.iter().take(1000);
        let mut called = calls.map(|call| timeline.names.text(call.name));
        let of_calls = called.find_map(|name| match name {
            name if name.starts_with("hip") => Some(Vendor::Amd),
            name if name.starts_with("cu") => Some(Vendor::Nvidia),
            _ => None,
        });
        let nsight = timeline.format == Format::NsightSystems;
        let framework = match timeline.format {
            Format::XPlane | Format::TraceViewer => Some(Framework::Xla),
            Format::Kineto => Some(Framework::PyTorch),
            Format::NsightSystems => names()
                .any(|name| name.starts_with("aten::") || name.contains("at::native::"))
                .then_some(Framework::PyTorch),
        };
        Self {
            vendor: of_devices.or(of_calls).or(nsight.then_some(Vendor::Nvidia)),
            framework,
            compiled: names().any(|name| COMPILED.iter().any(|known| name.contains(known))),
            graphs: names().any(|name| name.contains("GraphLaunch")),
            smallest: timeline.devices.iter().any(|device| {
                let name = device.name.as_deref().unwrap_or_default();
                name.contains("MIG 1g.") || name.contains("MIG 1c.")
            }),
        }
    }

    /// Of several ranks: what any of them shows.
    pub(super) fn together(all: impl Iterator<Item = Self>) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            vendor: sum.vendor.or(one.vendor),
            framework: sum.framework.or(one.framework),
            compiled: sum.compiled || one.compiled,
            graphs: sum.graphs || one.graphs,
            smallest: sum.smallest || one.smallest,
        })
    }

    pub(super) fn is_amd(self) -> bool {
        self.vendor == Some(Vendor::Amd)
    }

    pub(super) fn is_nvidia(self) -> bool {
        self.vendor == Some(Vendor::Nvidia)
    }

    pub(super) fn is_pytorch(self) -> bool {
        self.framework == Some(Framework::PyTorch)
    }

    /// How fewer and larger launches come about.
    pub(super) fn launch_less(self) -> String {
        let graphs = match (self.graphs, self.is_amd()) {
            (true, _) => "graphs are replayed already, capture more of the step in them",
            (false, true) => "HIP graphs",
            (false, false) => "CUDA graphs",
        };
        match self.framework {
            Some(Framework::PyTorch) => {
                let compile = match (self.compiled, self.graphs) {
                    (false, _) => "`torch.compile(mode=\"reduce-overhead\")`",
                    (true, false) => {
                        "`mode=\"reduce-overhead\"` for what `torch.compile` compiles already"
                    }
                    (true, true) => {
                        "fewer graph breaks in what is compiled already (`TORCH_LOGS=graph_breaks`)"
                    }
                };
                format!("{graphs}, {compile}")
            }
            Some(Framework::Xla) => {
                "one `jax.jit` or `tf.function` around the whole step, `lax.scan` over steps"
                    .to_owned()
            }
            None => graphs.to_owned(),
        }
    }

    /// How small kernels become fewer.
    pub(super) fn fuse(self) -> String {
        let replay = if self.graphs {
            "capture more of the step in the graphs that are replayed already"
        } else if self.is_amd() {
            "replay them as a HIP graph"
        } else {
            "replay them as a CUDA graph"
        };
        match self.framework {
            Some(Framework::PyTorch) if self.compiled => format!(
                "Fuse those that `torch.compile` left apart (`TORCH_LOGS=graph_breaks`; fused or `foreach` optimizers), or {replay}"
            ),
            Some(Framework::PyTorch) => {
                format!("Fuse them (`torch.compile`, fused or `foreach` optimizers) or {replay}")
            }
            Some(Framework::Xla) => {
                "Put them under one `jax.jit` or `tf.function`, so that XLA fuses them".to_owned()
            }
            None => format!("Fuse them, or {replay}"),
        }
    }

    /// Where clocks are looked up.
    pub(super) fn clocks(self) -> String {
        let tool = match self.vendor {
            Some(Vendor::Nvidia) => " (`nvidia-smi -q -d CLOCK,PERFORMANCE`)",
            Some(Vendor::Amd) => " (`amd-smi metric --clock --power --temperature`)",
            _ => "",
        };
        format!(
            "Look at clock, power cap and temperature of that time{tool}, and at who shares the GPU."
        )
    }

    /// Who makes the matrix kernels.
    pub(super) fn libraries(self) -> &'static str {
        match self.vendor {
            Some(Vendor::Amd) => "a current hipBLASLt or MIOpen",
            Some(Vendor::Nvidia) => "a current cuBLAS or cuDNN",
            _ => "current libraries",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwise_domain::profile::timeline::Device;

    fn on(device: &str, format: Format, names: &[&str]) -> Stack {
        let mut timeline = Timeline {
            format,
            devices: vec![Device {
                name: Some(device.to_owned()),
                ..Device::default()
            }],
            ..Timeline::default()
        };
        for name in names {
            timeline.names.add(name);
        }
        Stack::of(&timeline)
    }

    #[test]
    fn advice_is_for_the_stack_that_is_there() {
        let amd = on("AMD Instinct MI300X", Format::Kineto, &[]);
        assert!(amd.clocks().contains("amd-smi") && !amd.clocks().contains("nvidia"));
        assert!(amd.launch_less().contains("HIP graphs"));
        let jax = on("NVIDIA H100 80GB HBM3", Format::XPlane, &[]);
        assert!(!jax.fuse().contains("torch") && !jax.launch_less().contains("torch"));
        let used = ["triton_poi_fused_add_0", "cudaGraphLaunch"];
        let used = on("NVIDIA A100", Format::Kineto, &used);
        assert!(used.compiled && used.graphs);
        assert!(!used.launch_less().contains("CUDA graphs"));
        assert!(used.fuse().contains("left apart"));
        assert!(on("NVIDIA H100 MIG 1g.10gb", Format::Kineto, &[]).smallest);
        let unknown = on("", Format::NsightSystems, &["some_kernel"]);
        assert!(!unknown.launch_less().contains("torch"));
    }
}
