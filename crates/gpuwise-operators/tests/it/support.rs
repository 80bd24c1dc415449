use gpuwise_domain::gpu::{Device, Gpu};
use gpuwise_operators::{Basis, Functions, Silicon};
use std::sync::LazyLock;

fn catalogue(file: &str) -> String {
    let path = format!("{}/../../catalogue/{file}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).expect("a file of the catalogue")
}

pub(crate) static SHIPPED: LazyLock<String> = LazyLock::new(|| catalogue("operators.csv"));
pub(crate) static FUNCTIONS: LazyLock<Functions> =
    LazyLock::new(|| Functions::parse(&SHIPPED).expect("the shipped functions"));
pub(crate) static GPUS: LazyLock<Vec<Gpu>> = LazyLock::new(|| {
    gpuwise_read::catalogue::read_gpus("gpus.toml", &catalogue("gpus.toml")).expect("GPUs")
});

/// The widest basis: curves of every GPU.
pub(crate) const ANY: Basis = Basis::OtherFormat;

pub(crate) fn silicon(name: &str) -> Silicon {
    let gpu = GPUS
        .iter()
        .find(|gpu| gpu.name == name)
        .expect("a known GPU");
    Silicon::of(&Device::whole(gpu))
}
