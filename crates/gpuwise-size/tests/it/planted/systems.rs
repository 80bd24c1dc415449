//! Nodes and jobs that are healthy, or starved in one part, as the stations say.

use super::stations::seconds_of_step;
use gpuwise_domain::balance::{CoreWork, HostSystem, HostWork, Part};
use gpuwise_units::{Bytes, BytesPerSecond, RandomStream};

/// A planted system and its truth.
pub(crate) struct Planted {
    pub(crate) work: HostWork,
    pub(crate) host: HostSystem,
    /// What starves it; `None`: it is healthy.
    pub(crate) cause: Option<Part>,
    /// By how much its steps are longer than with that part unlimited.
    pub(crate) slower: f64,
}

/// A system is starved from this factor on, and healthy up to [`HEALTHY`]; what lies between is
/// neither and is drawn again.
const STARVED: f64 = 1.25;
const HEALTHY: f64 = 1.05;

/// So many systems that are starved and so many that are healthy.
pub(crate) fn systems(seed: u64, each: usize) -> Vec<Planted> {
    let mut out = Vec::new();
    let mut entity = 0;
    for starved in [true, false] {
        let mut found = 0;
        while found < each {
            entity += 1;
            assert!(entity < 40 * each as u64, "no system of this kind is found");
            let mut random = RandomStream::new(seed, "planted system", entity);
            let part = Part::ALL[found % Part::ALL.len()];
            let planted = draw(&mut random, starved.then_some(part), seed ^ entity);
            if let Some(planted) = planted {
                out.push(planted);
                found += 1;
            }
        }
    }
    out
}

/// Between two numbers, evenly in logarithm.
fn between(random: &mut RandomStream, low: f64, high: f64) -> f64 {
    low * (high / low).powf(random.uniform())
}

fn bytes(count: f64) -> Bytes {
    Bytes::from_f64(count)
}

/// Bytes a second, known.
fn rate(value: f64) -> BytesPerSecond {
    BytesPerSecond::new(value)
}

fn draw(random: &mut RandomStream, starved: Option<Part>, seed: u64) -> Option<Planted> {
    let kinds: &[fn(&mut RandomStream) -> HostWork] = match starved {
        Some(Part::Cpu) => &[images, serving],
        Some(Part::StorageRead) => &[images],
        None | Some(Part::Pcie) => &[images, language_training, serving],
        Some(Part::Network) => &[images, language_training],
        Some(Part::StorageWrite) => &[language_training],
        Some(Part::HostMemory) => &[language_training, serving],
        Some(Part::Link | Part::Numa) => &[serving],
    };
    let work = kinds[random.below(kinds.len() as u64) as usize](random);
    let host = host(random, &work, starved);
    let now = seconds_of_step(&work, &host, None, seed);
    if let Some(part) = starved
        && now < STARVED * seconds_of_step(&work, &host, Some(part), seed)
    {
        return None;
    }
    let gains: Vec<(Part, f64)> = Part::ALL
        .into_iter()
        .map(|part| (part, now / seconds_of_step(&work, &host, Some(part), seed)))
        .collect();
    let (cause, slower) = gains.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let kept = if starved.is_some() {
        Some(cause) == starved && slower >= STARVED
    } else {
        slower <= HEALTHY && now <= work.seconds * (1.0 + 2.0 * (HEALTHY - 1.0))
    };
    kept.then_some(Planted {
        cause: starved,
        slower,
        work,
        host,
    })
}

/// Training on images: samples are read, decoded, copied; gradients are exchanged.
fn images(random: &mut RandomStream) -> HostWork {
    let gpus = [1, 2, 4, 8][random.below(4) as usize];
    let nodes = [1, 2, 8, 16][random.below(4) as usize];
    let samples = between(random, 300.0, 3000.0) * f64::from(gpus);
    let stored = samples * between(random, 4e4, 3e5);
    let parameters = between(random, 2e7, 4e8);
    HostWork {
        name: "training on images".into(),
        seconds: 1.0,
        gpus,
        nodes,
        processes: gpus,
        cores: CoreWork {
            images: bytes(stored),
            ..CoreWork::default()
        },
        stored: bytes(stored),
        copied: bytes(samples * 224.0 * 224.0 * 3.0 * 4.0),
        group: 1,
        sent: if nodes > 1 {
            bytes(parameters * 4.0 * 2.0 * between(random, 1.0, 8.0))
        } else {
            Bytes::new(0)
        },
        hidden: 0.6,
        held: bytes(between(random, 1e10, 6e10)),
        ..HostWork::default()
    }
}

/// Training of a language model: states may be offloaded, gradients and checkpoints are large.
fn language_training(random: &mut RandomStream) -> HostWork {
    let gpus = [4, 8][random.below(2) as usize];
    let nodes = [1, 4, 16, 64][random.below(4) as usize];
    let parameters = between(random, 1e9, 7e10);
    let offloads = random.below(2) == 0;
    let seconds = between(random, 3.0, 20.0);
    let share = parameters / f64::from(nodes);
    HostWork {
        name: "training of a language model".into(),
        seconds,
        gpus,
        nodes,
        processes: gpus,
        cores: CoreWork {
            tokenized: between(random, 1e4, 2e5) * seconds,
            ..CoreWork::default()
        },
        copied: bytes(1e6),
        offloaded: if offloads {
            bytes(share * 8.0)
        } else {
            Bytes::new(0)
        },
        group: 1,
        sent: if nodes > 1 {
            bytes(parameters * 4.0)
        } else {
            Bytes::new(0)
        },
        hidden: 0.6,
        held: bytes(4e10 + if offloads { share * 16.0 } else { 0.0 }),
        weights: bytes(parameters * 2.0),
        checkpoint: bytes(share * 14.0),
        checkpoint_every: Some(between(random, 900.0, 3600.0)),
        ..HostWork::default()
    }
}

/// Serving: a second of load; prompts are tokenized, tokens streamed, cache goes to the host and
/// back, tensor-parallel GPUs exchange activations.
fn serving(random: &mut RandomStream) -> HostWork {
    let gpus = [2, 4, 8][random.below(3) as usize];
    let weights = between(random, 1.5e10, 1.5e11);
    let cache = between(random, 1e10, 1e11) * f64::from(gpus);
    HostWork {
        name: "serving".into(),
        seconds: 1.0,
        gpus,
        nodes: 1,
        processes: gpus + 2,
        cores: CoreWork {
            tokenized: between(random, 1e4, 6e5),
            streamed: between(random, 5e3, 1e5),
            ..CoreWork::default()
        },
        copied: bytes(between(random, 1e8, 2e10) * f64::from(gpus)),
        group: gpus,
        exchanged: bytes(between(random, 2e8, 8e9)),
        held: bytes(weights * 1.2 + cache),
        weights: bytes(weights),
        ..HostWork::default()
    }
}

/// A host with room in every part but the one that starves.
fn host(random: &mut RandomStream, work: &HostWork, starved: Option<Part>) -> HostSystem {
    let mut factor = |part: Part| {
        if starved == Some(part) {
            1.0 / between(random, 1.4, 4.0)
        } else {
            between(random, 1.7, 4.0)
        }
    };
    let clock = 3.0;
    let core = work.cores;
    let decoding = core.images.as_f64() / 3.3e7 + core.tokenized * 1.1e-6 + core.streamed * 2.3e-5;
    let cores = f64::from(work.processes) + decoding / work.seconds * 1.15;
    let cores = (cores * factor(Part::Cpu)).ceil().max(1.0);
    let copies =
        work.copied.as_f64() / work.seconds + work.offloaded.as_f64() / work.seconds * 18.0;
    let exchanges = work.exchanged.as_f64() / work.seconds;
    let pcie = (copies / f64::from(work.gpus) / 0.85 * factor(Part::Pcie)).max(2e9);
    let crossing = starved == Some(Part::Numa);
    let linked = !matches!(starved, Some(Part::Link | Part::Numa));
    let pcie = match starved {
        // A slow bus that activations are exchanged over, and one that only its crossing makes slow.
        Some(Part::Link) => exchanges / 0.64 * factor(Part::Link).max(0.3),
        Some(Part::Numa) => exchanges * 45.0 * factor(Part::Numa),
        _ => pcie,
    };
    let read = (work.stored.as_f64() / work.seconds / 0.95 * factor(Part::StorageRead)).max(2e9);
    let read = if work.stored.count() > 0 {
        work.stored.as_f64() / work.seconds / 0.95 * factor(Part::StorageRead)
    } else {
        read
    };
    let every = work.checkpoint_every.unwrap_or(1e9);
    let write = work.checkpoint.as_f64() / (every * 0.03) * factor(Part::StorageWrite);
    let write = match starved {
        Some(Part::StorageWrite) => write * 0.25,
        _ => write.max(1e9),
    };
    let sends = work.sent.as_f64() / (work.seconds * work.hidden.max(0.1)) / 0.88;
    HostSystem {
        name: "planted".into(),
        source: "drawn".into(),
        gpus: Some(work.gpus),
        sockets: Some(if crossing { 2 } else { 1 }),
        cores: Some(cores),
        clock_ghz: Some(clock),
        memory: Some(bytes(work.held.as_f64() * factor(Part::HostMemory))),
        numa_nodes: Some(if crossing { 2 } else { 1 }),
        pcie: Some(rate(pcie)),
        pcie_sharers: Some(1),
        fast_link: Some(linked),
        peer_to_peer: Some(!crossing),
        network: Some(rate((sends * factor(Part::Network)).max(1e9))),
        storage_read: Some(rate(read)),
        storage_write: Some(rate(write)),
        ..HostSystem::default()
    }
}
