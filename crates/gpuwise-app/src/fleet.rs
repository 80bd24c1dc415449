//! Fleet files and job files, with GPUs as the catalogue knows them, and the world that they describe.

use crate::{error::Problem, names};
use gpuwise_domain::{
    catalogue::Catalogue,
    fabric::Fabric,
    gpu::Gpu,
    placement::{Event, Fleet, GpuKind, Health, Holding, Moment, Part, TimestampedEvent},
    precision::Compute,
};
use gpuwise_read::{
    fabric::read_fabric,
    fleet::{self, FleetFile, FleetProblems, JobsFile, KnownGpu, KnownParts},
};
use gpuwise_sched::world::{Tenancy, World};
use gpuwise_units::Nanoseconds;
use std::{fs, path::Path};

/// Reads a fleet file, and the fabric file that it names.
///
/// # Errors
/// When one of them cannot be read or is wrong; every problem with its line.
pub fn read(path: &Path, catalogue: &Catalogue) -> anyhow::Result<FleetFile> {
    let text = text(path, "fleet")?;
    let fabric = fleet::fabric_of(&text)
        .map(|name| fabric(&path.with_file_name(name)))
        .transpose()?;
    let shown = path.display().to_string();
    let find = |name: &str| known(catalogue, name);
    fleet::read_fleet(&shown, &text, fabric.as_ref(), &find).map_err(wrong)
}

/// Reads a fleet from a text that names no fabric file; `shown` is what keeps it.
///
/// # Errors
/// As [`read`].
pub fn of_text(shown: &str, text: &str, catalogue: &Catalogue) -> anyhow::Result<FleetFile> {
    let find = |name: &str| known(catalogue, name);
    fleet::read_fleet(shown, text, None, &find).map_err(wrong)
}

/// Reads a job file for a fleet; kinds of GPU that the fleet lacks are added to it.
///
/// # Errors
/// As [`read`].
pub fn read_jobs(
    path: &Path,
    fleet: &mut Fleet,
    catalogue: &Catalogue,
) -> anyhow::Result<JobsFile> {
    let text = text(path, "job")?;
    let shown = path.display().to_string();
    let find = |name: &str| known(catalogue, name);
    fleet::read_jobs(&shown, &text, fleet, &find).map_err(wrong)
}

/// The files of a fleet and its jobs, as a saved plan keeps them.
pub struct Texts<'a> {
    pub fleet: &'a str,
    pub jobs: &'a str,
    /// The fabric file that the fleet file names.
    pub fabric: Option<&'a str>,
}

/// The fleet and the world of files whose texts are known; `shown` is what keeps them.
///
/// # Errors
/// As [`read`] and [`world`].
pub fn of_texts(
    shown: &str,
    texts: &Texts<'_>,
    catalogue: &Catalogue,
) -> anyhow::Result<(Fleet, World)> {
    let find = |name: &str| known(catalogue, name);
    let fabric = texts
        .fabric
        .map(|text| read_fabric(&format!("{shown}: fabric"), text))
        .transpose()?;
    let name = format!("{shown}: fleet");
    let mut file = fleet::read_fleet(&name, texts.fleet, fabric.as_ref(), &find).map_err(wrong)?;
    let name = format!("{shown}: jobs");
    let jobs = fleet::read_jobs(&name, texts.jobs, &mut file.fleet, &find).map_err(wrong)?;
    let world = world(&file, Some(&jobs))?;
    Ok((file.fleet, world))
}

fn wrong(problems: FleetProblems) -> anyhow::Error {
    anyhow::Error::new(problems)
}

fn text(path: &Path, what: &str) -> anyhow::Result<String> {
    fs::read_to_string(path).map_err(|error| {
        Problem::new(format!("cannot read {what} file {}", path.display()))
            .because(error)
            .hint(match what {
                "fleet" => "`gpuwise example fleet.toml` prints one",
                _ => "`gpuwise example jobs.toml` prints one",
            })
            .into()
    })
}

fn fabric(path: &Path) -> anyhow::Result<Fabric> {
    let shown = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|error| {
        Problem::new(format!("cannot read fabric {shown}"))
            .because(error)
            .hint("the fleet file names it; its path is taken from where that file is")
    })?;
    Ok(read_fabric(&shown, &text)?)
}

pub fn known(catalogue: &Catalogue, name: &str) -> Result<KnownGpu, String> {
    let found = names::gpu(catalogue, "GPU", name).map_err(|error| {
        let like = catalogue.gpus_like(name).join(", ");
        format!("{error}; known ones like it: {like}; [[gpu_kind]] describes others")
    })?;
    Ok(kind_of(catalogue, found))
}

pub fn kind_of(catalogue: &Catalogue, gpu: &Gpu) -> KnownGpu {
    let memory = gpu.memory_reported.or(gpu.memory_visible);
    let peak = gpu.peak.of(Compute::Half);
    let link = gpu.scale_up.as_ref().filter(|link| link.fabric.is_none());
    KnownGpu {
        kind: GpuKind {
            features: Vec::new(),
            name: gpu.name.clone(),
            memory_mib: memory.map(|bytes| bytes.mib() as u32),
            units: gpu.units,
            bandwidth_gbs: Some((gpu.bandwidth.get() / 1e9).round() as u32),
            tflops: peak.map(|rate| (rate.get() / 1e12).round() as u32),
            price: None,
            mig: catalogue.mig_geometry(gpu).cloned(),
        },
        joined: link.map(|link| link.domain),
        parts: parts(catalogue, &gpu.name),
    }
}

/// How the catalogue's ways of sharing hold for a GPU.
fn parts(catalogue: &Catalogue, gpu: &str) -> KnownParts {
    let own = catalogue
        .vgpu
        .iter()
        .filter(|one| one.gpus.iter().any(|name| name == gpu));
    KnownParts {
        mps_clients: catalogue
            .sharing
            .iter()
            .find(|one| one.name == "mps")
            .and_then(|one| one.most),
        vgpu: own.cloned().collect(),
    }
}

/// Takes the health of nodes and GPUs out of a fleet, as events that come once everything else is there.
pub fn states(fleet: &mut Fleet) -> Vec<Event> {
    let mut states = Vec::new();
    for (at, node) in fleet.nodes.iter_mut().enumerate() {
        let health = std::mem::take(&mut node.health);
        let node = gpuwise_domain::placement::NodeId(at as u32);
        states.extend((health != Health::Up).then_some(Event::NodeHealth { node, health }));
    }
    for (at, gpu) in fleet.gpus.iter_mut().enumerate() {
        let health = std::mem::take(&mut gpu.health);
        let gpu = gpuwise_domain::placement::GpuId(at as u32);
        states.extend((health != Health::Up).then_some(Event::GpuHealth { gpu, health }));
    }
    states
}

/// The world that a fleet file and a job file describe now: instances are there, jobs that run
/// are placed, the others wait.
///
/// # Errors
/// When two jobs run on the same GPU, one runs where it does not fit, and the like.
pub fn world(file: &FleetFile, jobs: Option<&JobsFile>) -> anyhow::Result<World> {
    let mut whole = file.fleet.clone();
    let states = states(&mut whole);
    // A fleet file speaks of times from now; a job file knows when now is.
    let now = jobs.map_or(Nanoseconds(0), |jobs| jobs.now);
    for kept in &mut whole.reservations {
        kept.from = Nanoseconds(kept.from.0.saturating_add(now.0));
        kept.until = Nanoseconds(kept.until.0.saturating_add(now.0));
    }
    let mut world = World::new(&whole);
    let mut apply = |event: Event, what: &dyn Fn() -> String| -> anyhow::Result<()> {
        let stamped = TimestampedEvent { at: now, event };
        world
            .apply(&stamped)
            .map_err(|refused| Problem::new(what()).because(refused).into())
    };
    for action in &file.present {
        let what = || "a MIG instance of the fleet file cannot be".to_owned();
        apply(Event::done(action.clone()), &what)?;
    }
    let jobs = jobs.map_or((&[][..], &[][..]), |jobs| (&jobs.jobs, &jobs.running));
    for job in jobs.0 {
        let what = || format!("job {:?} cannot be asked for", job.name);
        apply(Event::Submitted(job.clone()), &what)?;
    }
    for action in jobs.1 {
        let name = || {
            let gpuwise_domain::placement::Action::Place { job, .. } = action else {
                return String::new();
            };
            let named = jobs.0.iter().find(|one| one.id == *job);
            named.map(|one| one.name.clone()).unwrap_or_default()
        };
        let what = || format!("job {:?} cannot run where the job file says", name());
        apply(Event::done(action.clone()), &what)?;
    }
    for event in states {
        apply(event, &|| "a state of the fleet file cannot be".to_owned())?;
    }
    Ok(world)
}

/// Who holds what of a world, for pictures and tables.
pub fn moment(world: &World) -> Moment {
    let mut out = Moment::default();
    let ids = (0..).map(gpuwise_domain::placement::GpuId);
    for (gpu, state) in ids.zip(world.gpus()) {
        if let (gpuwise_domain::placement::Home::Pool(_), Some(node)) = (state.gpu.home, state.node)
        {
            out.attached.push((gpu, node));
        }
        let mut hold = |job, part| {
            let known = world.job(job).map(|state| &state.job);
            out.holdings.push(Holding {
                gpu,
                part,
                job,
                name: known.map(|job| job.name.to_string()).unwrap_or_default(),
                tenant: known.map(|job| job.tenant.clone()).unwrap_or_default(),
            });
        };
        match &state.held {
            Tenancy::Free => {}
            Tenancy::Whole(job) => hold(*job, Part::Whole),
            Tenancy::Shared {
                isolation, holders, ..
            } => {
                for holder in holders {
                    hold(
                        holder.job,
                        Part::Fraction {
                            milli: holder.milli,
                            memory_mib: holder.memory_mib,
                            isolation: *isolation,
                        },
                    );
                }
            }
            Tenancy::Sliced(instances) => {
                for one in instances {
                    let (shape, start) = (one.shape, one.start);
                    match one.holder {
                        Some(job) => hold(job, Part::Slice { shape, start }),
                        None => out.idle.push((gpu, shape, start)),
                    }
                }
            }
        }
    }
    out
}
