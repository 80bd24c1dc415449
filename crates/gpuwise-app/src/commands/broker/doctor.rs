//! `gpuwise doctor`: what this machine and its broker are ready for.

use super::{client::BrokerFlags, machine::DriverFlags, place};
use crate::{
    app::{Context, Exit, Format},
    programs,
};
use clap::Args;
use gpuwise_domain::placement::CutError;
use gpuwise_server::Cutter as _;
use gpuwise_view::table::{Cell, Column, Table};
use gpuwise_wire::broker::{DoctorAnswer, DoctorCheck, DoctorState, FleetAnswer};
use std::{
    path::Path,
    process::{Command, Stdio},
};

#[derive(Debug, Args)]
pub struct Doctor {
    #[command(flatten)]
    broker: BrokerFlags,
    #[command(flatten)]
    driver: DriverFlags,
    /// Look at a broker alone, not at this machine; for health checks
    #[arg(long)]
    broker_only: bool,
    /// Look at this machine alone
    #[arg(long, conflicts_with = "broker_only")]
    machine_only: bool,
}

/// Free disk below which a log is in danger.
const LITTLE: u64 = 1 << 30;

pub fn run(context: &Context, flags: &Doctor) -> anyhow::Result<Exit> {
    let mut checks = Vec::new();
    if !flags.broker_only {
        checks.extend([
            gpus(),
            mig(&flags.driver),
            sharing(),
            shell(),
            groups(),
            limits(),
            state(),
        ]);
    }
    if !flags.machine_only {
        broker(context, flags, &mut checks);
    }
    let answer = DoctorAnswer { checks };
    if context.form.format == Format::Json {
        context.json(&serde_json::to_value(&answer)?)?;
    } else {
        context.table(&table(&answer))?;
    }
    let ill = answer
        .checks
        .iter()
        .any(|one| one.state == DoctorState::Ill);
    Ok(if ill { Exit::No } else { Exit::Yes })
}

fn check(what: &str, state: DoctorState, found: impl Into<String>, hint: &str) -> DoctorCheck {
    DoctorCheck {
        what: what.into(),
        state,
        found: found.into(),
        hint: (!hint.is_empty()).then(|| hint.into()),
    }
}

fn table(answer: &DoctorAnswer) -> Table {
    let mut table = Table::new(vec![
        Column::left("what", "What"),
        Column::left("state", "State"),
        Column::left("found", "Found"),
        Column::left("hint", "What to do"),
    ]);
    for one in &answer.checks {
        table.push(vec![
            Cell::text(one.what.clone()),
            Cell::text(one.state.name()),
            Cell::text(one.found.clone()),
            Cell::text(one.hint.clone().unwrap_or_default()),
        ]);
    }
    table
}

/// What a program prints, where it is there and succeeds.
fn printed(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(text(&output.stderr))
    }
}

fn gpus() -> DoctorCheck {
    const WHAT: &str = "GPUs";
    let query = ["--query-gpu=name,driver_version", "--format=csv,noheader"];
    match printed("nvidia-smi", &query) {
        Ok(text) if !text.is_empty() => {
            let count = text.lines().count();
            let first = text.lines().next().unwrap_or_default();
            check(
                WHAT,
                DoctorState::Well,
                format!("{count}, the first {first}"),
                "",
            )
        }
        Ok(_) => check(
            WHAT,
            DoctorState::Ill,
            "the driver lists none",
            "nvidia-smi says more",
        ),
        Err(problem) if is_there("nvidia-smi") => check(
            WHAT,
            DoctorState::Ill,
            problem,
            "install or restart the driver",
        ),
        Err(_) => {
            let hint = "the local executor runs commands on the devices that a fleet file declares";
            check(WHAT, DoctorState::Absent, "no NVIDIA driver", hint)
        }
    }
}

/// What of MIG is possible here.
fn mig(flags: &DriverFlags) -> DoctorCheck {
    const WHAT: &str = "MIG instances";
    let machine = match flags.open() {
        Ok(machine) => machine,
        Err(error @ CutError::NoDriver(_)) => {
            let hint = "GPUs that a fleet file only declares are cut by a stand-in";
            return check(WHAT, DoctorState::Absent, error.to_string(), hint);
        }
        Err(error) => return check(WHAT, DoctorState::Ill, error.to_string(), error.hint()),
    };
    let gpus = match machine.gpus() {
        Ok(gpus) => gpus,
        Err(error) => return check(WHAT, DoctorState::Ill, error.to_string(), error.hint()),
    };
    let with = |mode: Option<bool>| gpus.iter().filter(|gpu| gpu.mode == mode).count();
    let pending = gpus.iter().filter(|gpu| gpu.pending.is_some()).count();
    let (mut instances, mut refused) = (0, None);
    for gpu in gpus.iter().filter(|gpu| gpu.mode == Some(true)) {
        match machine.instances(&gpu.uuid) {
            Ok(all) => instances += all.len(),
            Err(error) => refused = Some(error),
        }
    }
    let found = format!(
        "of {} GPUs {} with MIG on ({instances} instances), {} with MIG off, {} that cannot be cut",
        gpus.len(),
        with(Some(true)),
        with(Some(false)),
        with(None)
    );
    if let Some(error) = refused {
        return check(
            WHAT,
            DoctorState::Ill,
            format!("{found}; {error}"),
            error.hint(),
        );
    }
    if pending > 0 {
        let found = format!("{found}; the mode of {pending} changes when the GPU is reset");
        let hint = "`nvidia-smi --gpu-reset -i GPU` with nothing on it, or restart the machine";
        return check(WHAT, DoctorState::Absent, found, hint);
    }
    if with(None) == gpus.len() {
        return check(
            WHAT,
            DoctorState::Absent,
            found,
            "MIG needs A30, A100, H100 or newer",
        );
    }
    if !rustix::process::geteuid().is_root() {
        let hint = "to cut GPUs, run the broker as root, or give its user /dev/nvidia-caps/nvidia-cap1 (mig/config)";
        return check(WHAT, DoctorState::Well, found, hint);
    }
    check(WHAT, DoctorState::Well, found, "")
}

fn sharing() -> DoctorCheck {
    const WHAT: &str = "Shares by MPS";
    if !is_there("nvidia-cuda-mps-control") {
        return check(WHAT, DoctorState::Absent, "no nvidia-cuda-mps-control", "");
    }
    if printed("pidof", &["nvidia-cuda-mps-control"]).is_ok() {
        return check(WHAT, DoctorState::Well, "its daemon runs", "");
    }
    let hint = "nvidia-cuda-mps-control -d starts it; without it shares are by time";
    check(WHAT, DoctorState::Absent, "its daemon does not run", hint)
}

fn shell() -> DoctorCheck {
    const WHAT: &str = "Commands of leases";
    if Path::new("/bin/sh").exists() {
        check(WHAT, DoctorState::Well, "/bin/sh", "")
    } else {
        let hint = "the local executor starts commands by it";
        check(WHAT, DoctorState::Ill, "no /bin/sh", hint)
    }
}

fn groups() -> DoctorCheck {
    const WHAT: &str = "Process files";
    let own = std::fs::read_to_string(format!("/proc/{}/stat", std::process::id()));
    match own {
        Ok(_) => check(WHAT, DoctorState::Well, "/proc", ""),
        Err(error) => {
            let hint = "the local executor finds its processes there after a restart";
            check(WHAT, DoctorState::Ill, format!("/proc: {error}"), hint)
        }
    }
}

/// Whether cores and memory of leases are held.
fn limits() -> DoctorCheck {
    const WHAT: &str = "Cores and memory";
    match gpuwise_server::delegation() {
        Ok(folder) => check(WHAT, DoctorState::Well, folder.display().to_string(), ""),
        Err(why) => {
            let hint = "leases run without limits; under systemd Delegate=cpu memory lets the broker set them";
            check(WHAT, DoctorState::Absent, why, hint)
        }
    }
}

fn is_there(program: &str) -> bool {
    programs::found(program).is_some()
}

/// Where the log and processes' logs go.
fn state() -> DoctorCheck {
    const WHAT: &str = "Log and its disk";
    let path = match place::store() {
        Ok(path) => path,
        Err(error) => return check(WHAT, DoctorState::Ill, error.to_string(), "set HOME"),
    };
    // The nearest directory that is there: the first start makes the others.
    let folder = path.ancestors().skip(1).find(|folder| folder.is_dir());
    let Some(folder) = folder else {
        return check(
            WHAT,
            DoctorState::Ill,
            format!("{} cannot be made", path.display()),
            "",
        );
    };
    let shown = path.display();
    let free = match rustix::fs::statvfs(folder) {
        Ok(about) => about.f_bavail.saturating_mul(about.f_frsize),
        Err(error) => {
            return check(WHAT, DoctorState::Ill, format!("{shown}: {error}"), "");
        }
    };
    let gib = free as f64 / f64::from(1 << 30);
    let found = format!("{shown}, {gib:.1} GiB free");
    if rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_err() {
        let hint = format!(
            "make {} writable, or name another --store",
            folder.display()
        );
        return check(WHAT, DoctorState::Ill, found, &hint);
    }
    if free < LITTLE {
        let hint = "make room: a broker whose disk is full refuses leases";
        return check(WHAT, DoctorState::Ill, found, hint);
    }
    check(WHAT, DoctorState::Well, found, "")
}

fn broker(context: &Context, flags: &Doctor, checks: &mut Vec<DoctorCheck>) {
    let url = flags.broker.url();
    let client = match flags.broker.open(context.app.offline) {
        Ok(client) => client,
        Err(error) => {
            return checks.push(check("Broker", DoctorState::Ill, format!("{error:#}"), ""));
        }
    };
    if let Err(error) = client.text("/healthz") {
        let absent = if flags.broker_only {
            DoctorState::Ill
        } else {
            DoctorState::Absent
        };
        let hint = "`gpuwise serve` starts one; GPUWISE_URL says where it is";
        return checks.push(check(
            "Broker",
            absent,
            format!("{url}: {}", error.root_cause()),
            hint,
        ));
    }
    checks.push(match client.text("/readyz") {
        Ok(_) => check("Broker", DoctorState::Well, format!("{url} is ready"), ""),
        Err(error) => {
            let found = format!("{url} lives and is not ready: {}", error.root_cause());
            check(
                "Broker",
                DoctorState::Ill,
                found,
                "it waits for another, or cannot write its log",
            )
        }
    });
    if flags.broker_only {
        return;
    }
    let asked = flags.broker.client(context.app.offline);
    let fleet = asked.and_then(|client| client.get::<FleetAnswer>("/v1/fleet"));
    checks.push(match fleet {
        Ok(fleet) => {
            let gpus: usize = fleet.nodes.iter().map(|node| node.gpus.len()).sum();
            let found = format!("taken; fleet {} with {gpus} GPUs", fleet.name);
            check("Token", DoctorState::Well, found, "")
        }
        Err(error) => {
            let hint = "give --token or GPUWISE_TOKEN; `gpuwise token create` makes one";
            check(
                "Token",
                DoctorState::Ill,
                error.root_cause().to_string(),
                hint,
            )
        }
    });
}
