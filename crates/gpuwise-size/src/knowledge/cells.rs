//! Fitted cells: which GPU, engine, precision, architecture and kind of load were measured together.
//!
//! Constants are kept by generation and by engine version bucket apart; what was measured is joint. H100
//! under vLLM and MI300X under llama.cpp say nothing of MI300X under vLLM, although each part of it
//! was seen. So the basis of a figure follows from the cells, and where a part of the joint is
//! missing the answer says which.

use crate::setup::Setup;
use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use gpuwise_domain::{
    engine::EngineKind,
    estimate::Basis,
    model::{Architecture, Mixer},
};

gpuwise_units::named! {
    /// Architectures that engines run by the same kernels.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum ArchitectureClass:
        key,
        /// For people: `a model with experts`.
        title
    {
        /// Every layer attends, every weight is used by every token.
        Dense = "dense", "a dense model",
        /// Tokens choose among experts.
        Experts = "experts", "a model with experts",
        /// Latent attention, with experts or without.
        Latent = "latent", "latent attention",
        /// Attention that reads only the tokens that an index finds.
        Indexed = "indexed", "attention by an index",
        /// A window, and compressed entries beyond it.
        Compressed = "compressed", "compressed attention",
        /// Recurrent layers, with attention between them or without.
        Recurrent = "recurrent", "recurrent layers",
    }
}

impl ArchitectureClass {
    /// The class of an architecture, by the part that is hardest to run.
    pub fn of(architecture: &Architecture) -> Self {
        let has = |class: &Self| {
            let mut mixers = architecture.attention_layers();
            mixers.any(|(_, mixer)| Self::of_mixer(mixer) == Some(*class))
        };
        let hardest = [
            Self::Recurrent,
            Self::Compressed,
            Self::Indexed,
            Self::Latent,
        ];
        hardest.into_iter().find(has).unwrap_or_else(|| {
            if architecture.has_experts() {
                Self::Experts
            } else {
                Self::Dense
            }
        })
    }

    /// The class of architectures with such a layer; `None` where the layer makes no class.
    const fn of_mixer(mixer: &Mixer) -> Option<Self> {
        match mixer {
            Mixer::Recurrent(_) => Some(Self::Recurrent),
            Mixer::Compressed { .. } => Some(Self::Compressed),
            Mixer::Attention {
                top_tokens: 1.., ..
            }
            | Mixer::Latent {
                top_tokens: 1.., ..
            } => Some(Self::Indexed),
            Mixer::Latent { .. } => Some(Self::Latent),
            Mixer::Attention { .. } | Mixer::None => None,
        }
    }

    pub fn by_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.key() == key)
    }
}

gpuwise_units::named! {
    /// How work comes: all at once, or as a server gets it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Regime: key {
        /// A batch that starts and ends together, or one stream.
        Batch = "batch",
        /// Requests that come and go.
        Served = "served",
    }
}

impl Regime {
    pub fn by_key(key: &str) -> Option<Self> {
        [Self::Batch, Self::Served]
            .into_iter()
            .find(|regime| regime.key() == key)
    }
}

/// What is asked of, or was measured of, together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// Catalogue name of the GPU.
    pub gpu: String,
    /// Under what the constants of its silicon are kept.
    pub silicon: String,
    pub engine: &'static str,
    /// The engine version bucket.
    pub bucket: String,
    /// Precision of the weights: formats that differ only in their scales are one.
    pub weights: String,
    pub architecture: ArchitectureClass,
    pub regime: Regime,
}

impl Cell {
    /// The cell of a setup under a kind of load.
    pub fn of(setup: &Setup<'_>, regime: Regime) -> Self {
        Self {
            gpu: setup.device.gpu.name.clone(),
            silicon: setup.silicon().to_string(),
            engine: setup.engine.kind.name(),
            bucket: setup.bucket.key.into(),
            weights: precision(&setup.weights.name()),
            architecture: ArchitectureClass::of(setup.architecture),
            regime,
        }
    }

    /// Under what corrections of steps are kept: engine version bucket, silicon, architecture and precision,
    /// whatever the load.
    pub fn joint(&self) -> String {
        format!(
            "{} {} {} {}",
            self.bucket,
            self.silicon,
            self.architecture.key(),
            self.weights
        )
    }

    fn title(&self) -> &'static str {
        EngineKind::ALL
            .into_iter()
            .find(|kind| kind.name() == self.engine)
            .map_or("this engine", EngineKind::title)
    }
}

/// The precision of a format by its name: `fp8-block` is `fp8`, `q4_k+q6_k` is `q4`.
fn precision(format: &str) -> String {
    match format {
        "bf16" | "fp16" => "16-bit".into(),
        other => other.split(['-', '_', '+']).next().unwrap_or(other).into(),
    }
}

/// A cell that rows were fitted in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FittedCell {
    pub cell: Cell,
    pub rows: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cells {
    /// In the order of the file.
    pub rows: Vec<FittedCell>,
}

/// How a question stands to the fitted cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Calibrated, transferred or extrapolated.
    pub basis: Basis,
    /// Which part of the joint was not seen; empty where all of it was.
    pub unseen: String,
}

impl Cells {
    /// How a cell stands to those that were fitted.
    ///
    /// Calibrated: the cell itself was. Transferred: its silicon was fitted under its engine, and its
    /// precision and its class of architectures with either. Extrapolated: neither.
    pub fn standing(&self, asked: &Cell) -> Standing {
        let basis = self.basis(asked);
        let unseen = match basis {
            Basis::Calibrated => String::new(),
            _ => self.unseen(asked),
        };
        Standing { basis, unseen }
    }

    pub fn basis(&self, asked: &Cell) -> Basis {
        if self.any(|cell| cell == asked) {
            return Basis::Calibrated;
        }
        let near = |cell: &Cell| cell.silicon == asked.silicon || cell.engine == asked.engine;
        let related = self.any(|cell| cell.silicon == asked.silicon && cell.engine == asked.engine)
            && self.any(|cell| near(cell) && cell.weights == asked.weights)
            && self.any(|cell| near(cell) && cell.architecture == asked.architecture);
        if related {
            Basis::Transferred
        } else {
            Basis::Extrapolated
        }
    }

    fn any(&self, wanted: impl Fn(&Cell) -> bool) -> bool {
        self.rows.iter().any(|row| wanted(&row.cell))
    }

    /// The first part of the joint, from the widest to the narrowest, that no fitted row has.
    fn unseen(&self, asked: &Cell) -> String {
        let engine = asked.title();
        let (gpu, weights) = (&asked.gpu, &asked.weights);
        let kind = asked.architecture.title();
        if !self.any(|cell| cell.engine == asked.engine) {
            return format!("no measured row under {engine} was fitted");
        }
        if !self.any(|cell| cell.architecture == asked.architecture) {
            return format!("no measured row of {kind} was fitted");
        }
        let here = |cell: &Cell| cell.gpu == asked.gpu && cell.engine == asked.engine;
        if !self.any(here) {
            let others =
                self.any(|cell| cell.silicon == asked.silicon && cell.engine == asked.engine);
            let what = if others {
                format!("; others of {} were", asked.silicon)
            } else {
                String::new()
            };
            return format!("no measured row of {gpu} under {engine} was fitted{what}");
        }
        let place = format!("{gpu} under {engine}");
        if !self.any(|cell| here(cell) && cell.bucket == asked.bucket) {
            return format!(
                "no measured row of {place} in releases like this one ({}) was fitted",
                asked.bucket
            );
        }
        let here = |cell: &Cell| here(cell) && cell.bucket == asked.bucket;
        if !self.any(|cell| here(cell) && cell.weights == *weights) {
            return format!("no measured row of {place} with {weights} weights was fitted");
        }
        if !self.any(|cell| here(cell) && cell.architecture == asked.architecture) {
            return format!("no measured row of {place} with {kind} was fitted");
        }
        let here = |cell: &Cell| {
            here(cell) && cell.weights == *weights && cell.architecture == asked.architecture
        };
        if self.any(here) {
            let load = match asked.regime {
                Regime::Batch => "of a static batch or one stream",
                Regime::Served => "under a server's load",
            };
            return format!(
                "no measured row {load} was fitted for {weights} weights and {kind} on {place}"
            );
        }
        format!("{weights} weights and {kind} were not measured together on {place}")
    }
}
