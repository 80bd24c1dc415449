//! What GPUs reach: their rows of the catalogue, and measured times of matrix products.

use super::ProfileQuery;
use crate::{
    catalogue::{Loaded, OwnRows},
    operators,
};
use gpuwise_domain::{
    engine::EngineKind,
    gpu::{Device, Gpu},
};
use gpuwise_measure::operators::{Gpus, Product};
use gpuwise_operators::{GemmFormat, On, Operators, Silicon};
use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

/// GPUs of the catalogue, and what tells times of products on them, which is read when asked.
#[derive(Debug)]
pub(super) struct Reached {
    /// By every name that a file may state.
    gpus: BTreeMap<String, Gpu>,
    operators: OnceLock<Option<Arc<Operators>>>,
}

impl Reached {
    /// # Errors
    /// When a user's file of operator functions is not of its form.
    pub(super) fn new(gpus: BTreeMap<String, Gpu>, loaded: &Loaded) -> anyhow::Result<Self> {
        let own = loaded.own(OwnRows::Operators).next().is_some();
        let operators = own.then(|| operators::measured(loaded)).transpose()?;
        let known = OnceLock::new();
        if operators.is_some() {
            known.get_or_init(|| operators);
        }
        Ok(Self {
            gpus,
            operators: known,
        })
    }

    fn operators(&self) -> Option<&Operators> {
        // Those that the binary carries are read where a profile asks for them.
        let read = || operators::measured(&Loaded::default()).ok();
        self.operators.get_or_init(read).as_deref()
    }
}

impl ProfileQuery {
    /// Hands over what is known of GPUs, and of the times of matrix products on them.
    pub fn on_gpus<T>(&self, look: impl FnOnce(&Gpus<'_>) -> T) -> T {
        let measured = |gpu: &Gpu, product| least(self.reached.operators()?, gpu, product);
        look(&Gpus {
            rows: &self.reached.gpus,
            stated: self.gpu.as_ref(),
            measured: &measured,
        })
    }
}

/// Engines whose measured products of matrices say what a GPU reaches: each calls the libraries that
/// frameworks call.
const ENGINES: [EngineKind; 3] = [
    EngineKind::Vllm,
    EngineKind::Sglang,
    EngineKind::TensorRtLlm,
];

/// The least that engines' libraries were measured to take for a product on a GPU of its generation.
fn least(operators: &Operators, gpu: &Gpu, product: Product) -> Option<f64> {
    let format = match product.precision {
        "bf16" | "fp16" => GemmFormat::Bf16,
        "fp8" => GemmFormat::Fp8,
        "int8" => GemmFormat::Int8,
        _ => return None,
    };
    let silicon = Arc::new(Silicon::of(&Device::whole(gpu)));
    let of = |engine| {
        let on = On {
            silicon: &silicon,
            engine,
        };
        let curve = operators.gemm(&on, format, product.n, product.k)?;
        Some(curve.at(product.m))
    };
    ENGINES.into_iter().filter_map(of).min_by(f64::total_cmp)
}
