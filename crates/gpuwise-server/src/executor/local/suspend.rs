//! How what runs gives its GPUs up while it is idle, and gets them back.

use super::{
    kept::Process,
    process::{Group, Watch},
};
use crate::sleep::EngineAt;
use gpuwise_broker::{Observation, OrderId};
use gpuwise_units::Nanoseconds;
use rustix::process::Signal;
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    process::{Command, Stdio},
    sync::{Arc, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

const STEP: Duration = Duration::from_millis(50);

/// How the GPUs of an idle lease are freed, and given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Suspension {
    /// Its processes end, and are started again: what they did not save is lost.
    #[default]
    Requeue,
    /// Its engine sleeps, as vLLM and those that speak its endpoints do: at level 1 weights are kept in host
    /// memory, at level 2 they are not. It must have been started with sleep mode on.
    Sleep { level: u8 },
    /// Its processes get a signal upon which they save and end by themselves in time; else they keep the GPUs.
    Checkpoint { signal: Signal, grace: Nanoseconds },
    /// `cuda-checkpoint` moves what is on the GPUs to host memory: driver 550 or newer, and no memory shared
    /// between processes.
    CudaCheckpoint,
}

impl Suspension {
    /// `requeue`, `sleep`, `sleep:2`, `checkpoint:USR1`, `checkpoint:USR1:60s` or `cuda-checkpoint`.
    ///
    /// # Errors
    /// When it is none of these.
    pub fn read(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?}: expected sleep, sleep:2, checkpoint:SIGNAL, checkpoint:SIGNAL:TIME, cuda-checkpoint or requeue"
            )
        };
        let mut parts = text.split(':');
        let (how, first, second) = (parts.next(), parts.next(), parts.next());
        Ok(match (how, first, second) {
            (Some("requeue"), None, None) => Self::Requeue,
            (Some("cuda-checkpoint"), None, None) => Self::CudaCheckpoint,
            (Some("sleep"), None | Some("1"), None) => Self::Sleep { level: 1 },
            (Some("sleep"), Some("2"), None) => Self::Sleep { level: 2 },
            (Some("checkpoint"), Some(signal), grace) => Self::Checkpoint {
                signal: named(signal).ok_or_else(wrong)?,
                grace: match grace {
                    None => Nanoseconds(60_000_000_000),
                    Some(text) => text.parse().map_err(|_| wrong())?,
                },
            },
            _ => return Err(wrong()),
        })
    }

    /// Of a lease; what was admitted can be read.
    pub(super) fn of(lease: &gpuwise_broker::Lease) -> Self {
        let said = lease.ask.suspend.as_deref();
        said.and_then(|text| Self::read(text).ok())
            .unwrap_or_default()
    }

    /// Whether its processes live on while it is suspended.
    pub const fn stays(self) -> bool {
        matches!(self, Self::Sleep { .. } | Self::CudaCheckpoint)
    }
}

fn named(signal: &str) -> Option<Signal> {
    Some(match signal.trim_start_matches("SIG") {
        "USR1" => Signal::USR1,
        "USR2" => Signal::USR2,
        "TERM" => Signal::TERM,
        "INT" => Signal::INT,
        "HUP" => Signal::HUP,
        _ => return None,
    })
}

/// The engine on a port of this machine.
const fn engine(port: u16) -> EngineAt {
    EngineAt(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port))
}

/// What is suspended or comes back.
pub(super) struct Work {
    pub(super) how: Suspension,
    pub(super) order: OrderId,
    pub(super) watch: Watch,
    pub(super) groups: Vec<Arc<Group>>,
    pub(super) processes: Vec<Process>,
    /// Where its engine says that it is ready.
    pub(super) health: Option<String>,
}

impl Work {
    /// Frees the GPUs, in a thread of its own, and says whether that went well.
    pub(super) fn suspend(self) {
        thread::spawn(move || {
            let done = self.freed();
            self.tell(done);
        });
    }

    /// Takes them again.
    pub(super) fn resume(self) {
        thread::spawn(move || {
            let done = self.back();
            if done.is_ok() {
                let ports = self.processes.iter().filter_map(|one| one.port);
                let addresses = ports.map(|port| format!("127.0.0.1:{port}"));
                self.watch
                    .endpoints
                    .set(self.watch.job.0, addresses.collect());
            }
            self.tell(done);
        });
    }

    fn tell(&self, done: Result<(), String>) {
        let order = self.order;
        let told = match done {
            Ok(()) => Observation::Done(order),
            Err(reason) => Observation::failed(order, reason),
        };
        // The writer may be gone already.
        let _ = self
            .watch
            .inbox
            .send(crate::message::Incoming::Observed(told));
    }

    fn freed(&self) -> Result<(), String> {
        match self.how {
            Suspension::Requeue => Ok(()),
            Suspension::Sleep { level } => self.each_port(|port| engine(port).sleep(level)),
            Suspension::CudaCheckpoint => self.toggled(),
            Suspension::Checkpoint { signal, grace } => {
                let end = Instant::now() + Duration::from_nanos(grace.0);
                self.groups.iter().for_each(|group| group.is_told());
                self.groups.iter().for_each(|group| group.signal(signal));
                while self.groups.iter().any(|group| group.is_alive()) {
                    if Instant::now() >= end {
                        self.groups.iter().for_each(|group| group.goes_on());
                        return Err(format!("it did not save and end within {grace}"));
                    }
                    thread::sleep(STEP);
                }
                self.watch.place.forget(self.watch.job);
                Ok(())
            }
        }
    }

    fn back(&self) -> Result<(), String> {
        match self.how {
            Suspension::Requeue | Suspension::Checkpoint { .. } => Ok(()),
            Suspension::CudaCheckpoint => self.toggled(),
            Suspension::Sleep { .. } => {
                let health = self.health.clone().unwrap_or_else(|| "/health".into());
                self.each_port(|port| engine(port).wake(&health, || self.has_ended()))
            }
        }
    }

    fn has_ended(&self) -> bool {
        let mut groups = self.groups.iter();
        groups.any(|group| group.gone.load(Ordering::SeqCst))
    }

    fn each_port(&self, ask: impl Fn(u16) -> Result<(), String>) -> Result<(), String> {
        let mut ports = self.processes.iter().filter_map(|one| one.port).peekable();
        if ports.peek().is_none() {
            return Err("it has no port on which its engine could be asked".into());
        }
        ports.try_for_each(ask)
    }

    /// Each process moves what it has on GPUs to host memory, or back.
    fn toggled(&self) -> Result<(), String> {
        for group in &self.groups {
            let leader = group.leader().ok_or("its command has ended")?;
            let done = Command::new("cuda-checkpoint")
                .args(["--toggle", "--pid", &leader.pid.to_string()])
                .stdin(Stdio::null())
                .output()
                .map_err(|error| format!("cuda-checkpoint cannot be started: {error}"))?;
            if !done.status.success() {
                let said = String::from_utf8_lossy(&done.stderr);
                return Err(format!("cuda-checkpoint: {}", said.trim()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_to_suspend_are_read() {
        assert_eq!(
            Suspension::read("sleep:2"),
            Ok(Suspension::Sleep { level: 2 })
        );
        assert_eq!(
            Suspension::read("checkpoint:SIGUSR1:5s"),
            Ok(Suspension::Checkpoint {
                signal: Signal::USR1,
                grace: Nanoseconds(5_000_000_000)
            })
        );
        assert!(Suspension::read("sleep").is_ok_and(Suspension::stays));
        assert!(!Suspension::read("requeue").is_ok_and(Suspension::stays));
        for wrong in [
            "sleep:3",
            "checkpoint",
            "checkpoint:KILL",
            "nap",
            "checkpoint:USR1:soon",
        ] {
            assert!(Suspension::read(wrong).is_err(), "{wrong}");
        }
    }
}
