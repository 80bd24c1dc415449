//! Processes of this machine as /proc shows them: which descend from which, and which carry the mark of a lease.

use crate::http::door::on_one_line;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

/// Variables by which a process is known as one of a lease, whatever became of those that started it.
pub(super) const LEASE: &str = "GPUWISE_LEASE";
pub(super) const WORKER: &str = "GPUWISE_WORKER";
/// The log whose lease it is: a machine may have several brokers.
pub(super) const BROKER: &str = "GPUWISE_BROKER";
/// The folder in which it is noted, as supervisors know it.
pub(super) const STATE: &str = "GPUWISE_STATE";

/// A process that runs; one that has ended and was not waited for is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: i32,
    pub(super) parent: i32,
    pub(super) group: i32,
    /// When it was started, in the kernel's ticks since the machine was: numbers of processes come again.
    pub(super) started: u64,
    pub(super) name: String,
}

impl Process {
    /// `None`: there is none, or only what is left of one that has ended.
    pub(super) fn of(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (process, over) = read(pid, &stat)?;
        // Its first thread may have ended while others run.
        (!over || threads(pid).next().is_some()).then_some(process)
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.pid).filter(|_| self.pid > 1) {
            // One that is gone by now is what is wanted; one that may not be signalled is seen to stay.
            let _ = kill_process(pid, signal);
        }
    }
}

/// Threads of a process that have not ended.
fn threads(pid: i32) -> impl Iterator<Item = i32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten();
    let all = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    all.filter(move |thread| {
        let stat = fs::read_to_string(format!("/proc/{pid}/task/{thread}/stat"));
        let read = stat.ok().and_then(|stat| read(*thread, &stat));
        read.is_some_and(|(_, over)| !over)
    })
}

/// A process, or one of its threads, and whether that has ended.
fn read(pid: i32, stat: &str) -> Option<(Process, bool)> {
    // Its name, in brackets, may hold anything.
    let (head, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let over = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let process = Process {
        pid,
        parent,
        group,
        started: fields.nth(16)?.parse().ok()?,
        name: head.split_once('(')?.1.to_owned(),
    };
    Some((process, over))
}

/// All processes of this machine, at about one moment.
#[derive(Debug, Default)]
pub(super) struct Tree(BTreeMap<i32, Process>);

impl Tree {
    pub(super) fn now() -> Self {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let each = |pid: i32| Some((pid, Process::of(pid)?));
        Self(pids.filter_map(each).collect())
    }

    pub(super) fn get(&self, pid: i32) -> Option<&Process> {
        self.0.get(&pid)
    }

    /// What descends from a process, itself not counted.
    pub(super) fn below(&self, root: i32) -> Vec<Process> {
        let mut children: BTreeMap<i32, Vec<&Process>> = BTreeMap::new();
        for one in self.0.values() {
            children.entry(one.parent).or_default().push(one);
        }
        let (mut found, mut open) = (Vec::new(), vec![root]);
        let mut known = BTreeSet::from([root]);
        while let Some(pid) = open.pop() {
            for child in children.get(&pid).into_iter().flatten() {
                if known.insert(child.pid) {
                    open.push(child.pid);
                    found.push((*child).clone());
                }
            }
        }
        found
    }

    pub(super) fn of_group(&self, group: i32) -> impl Iterator<Item = &Process> {
        self.0.values().filter(move |one| one.group == group)
    }

    /// Those that carry the mark of a log's lease.
    pub(super) fn marked(&self) -> impl Iterator<Item = (&Process, Mark)> {
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        let others = self.0.values().filter(move |one| one.pid != own);
        others.filter_map(|one| Some((one, Mark::of(one.pid)?)))
    }
}

/// What a process of a lease was told of that, by its environment: of a command, whatever it says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) broker: String,
    /// `L-42`.
    pub(super) lease: String,
    pub(super) worker: Option<usize>,
    pub(super) state: Option<String>,
    /// The GPUs that it was told to use, as CUDA calls them.
    pub(super) devices: Vec<String>,
}

impl Mark {
    fn of(pid: i32) -> Option<Self> {
        let own = match fs::read(format!("/proc/{pid}/environ")) {
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return None,
            // Kernels say of one whose first thread has ended that it is empty, or not there.
            own => own.unwrap_or_default(),
        };
        if !own.is_empty() {
            return Self::read(&own);
        }
        // A first thread that has ended has none any more; what the others have is the same.
        threads(pid).find_map(|thread| {
            Self::read(&fs::read(format!("/proc/{pid}/task/{thread}/environ")).ok()?)
        })
    }

    fn read(environment: &[u8]) -> Option<Self> {
        let value = |name: &str| {
            let mut all = environment.split(|byte| *byte == 0);
            let found = all.find_map(|one| {
                one.strip_prefix(name.as_bytes())?
                    .strip_prefix(b"=")
                    .map(<[u8]>::to_vec)
            });
            found.and_then(|value| String::from_utf8(value).ok())
        };
        let devices = value(super::environment::VISIBLE).unwrap_or_default();
        Some(Self {
            lease: value(LEASE)?,
            // Of one that an earlier release has started it is not known.
            broker: value(BROKER).unwrap_or_default(),
            state: value(STATE),
            worker: value(WORKER).and_then(|worker| worker.parse().ok()),
            devices: devices
                .split(',')
                .filter(|one| !one.is_empty())
                .map(str::to_owned)
                .collect(),
        })
    }
}

/// Tells each of them.
pub(super) fn signal(processes: &[Process], signal: Signal) {
    for one in processes {
        one.signal(signal);
    }
}

/// Ends at once what a look finds: all of it is stopped first, so that nothing new is started meanwhile by what is
/// about to be ended.
pub(super) fn kill(look: impl Fn() -> Vec<Process>) {
    let mut stopped = BTreeSet::new();
    loop {
        let found = look();
        let fresh: Vec<Process> = found
            .iter()
            .filter(|one| stopped.insert((one.pid, one.started)))
            .cloned()
            .collect();
        if fresh.is_empty() {
            return signal(&found, Signal::KILL);
        }
        signal(&fresh, Signal::STOP);
    }
}

/// Children of a process, dead ones that it has not waited for included; `None`: the kernel does not list them.
///
/// Where there is none, nothing descends from one that what it loses is given to: a look at all processes of a machine
/// takes longer than a process may live that replaces itself.
pub(super) fn children(pid: i32) -> Option<Vec<i32>> {
    let mut found = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        let list = fs::read_to_string(thread.ok()?.path().join("children")).ok()?;
        found.extend(
            list.split_whitespace()
                .filter_map(|child| child.parse::<i32>().ok()),
        );
    }
    Some(found)
}

/// Ends children of a process as fast as they are listed, a bounded number of times.
pub(super) fn hunt(pid: i32) {
    const TIMES: usize = 2_000;
    for _ in 0..TIMES {
        let found = children(pid).unwrap_or_default();
        if found.is_empty() {
            return;
        }
        for child in found.into_iter().filter(|child| *child > 1) {
            if let Some(child) = Pid::from_raw(child) {
                // One that is gone by now is what is wanted.
                let _ = kill_process(child, Signal::KILL);
            }
        }
    }
}

/// As people read it: `sleep (1234), python3 (1240)`.
pub(super) fn words(processes: &[Process]) -> String {
    const SHOWN: usize = 5;
    let names = processes.iter().take(SHOWN);
    // A process calls itself as it likes: what would end the sentence is not shown.
    let names: Vec<String> = names
        .map(|one| {
            let name = on_one_line(&one.name).replace([';', ',', '(', ')'], "?");
            format!("{name} ({})", one.pid)
        })
        .collect();
    match processes.len().saturating_sub(SHOWN) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernel_is_read_whatever_a_process_is_called() {
        let line = |name: &str, state: &str| {
            format!(
                "7 ({name}) {state} 3 5 5 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 99 2 3 18446744073709551615"
            )
        };
        let process = Process {
            pid: 7,
            parent: 3,
            group: 5,
            started: 99,
            name: "a) (b".into(),
        };
        assert_eq!(read(7, &line("a) (b", "S")), Some((process, false)));
        assert!(read(7, &line("sh", "Z")).is_some_and(|(_, over)| over));
        assert_eq!(read(7, "7 (sh"), None);
    }

    #[test]
    fn what_descends_from_a_process_is_found_at_any_depth() {
        let one = |pid, parent| Process {
            pid,
            parent,
            group: pid,
            started: 1,
            name: "one".into(),
        };
        let all = [one(2, 1), one(3, 2), one(4, 3), one(5, 1), one(6, 6)];
        let tree = Tree(all.into_iter().map(|one| (one.pid, one)).collect());
        let below = |root| {
            let mut pids: Vec<i32> = tree.below(root).iter().map(|one| one.pid).collect();
            pids.sort_unstable();
            pids
        };
        assert_eq!(below(2), [3, 4]);
        assert_eq!(below(4), [0_i32; 0]);
        assert_eq!(below(6), [0_i32; 0], "it is its own parent");
    }

    #[test]
    fn a_mark_is_read_from_an_environment() {
        let read = |text: &str| Mark::read(text.replace(' ', "\0").as_bytes());
        assert_eq!(read("PATH=/bin XGPUWISE_LEASE=L-1"), None);
        let mark = Mark {
            broker: "abc".into(),
            lease: "L-7".into(),
            worker: Some(2),
            state: None,
            devices: vec!["n1/0".into(), "n1/1".into()],
        };
        let text =
            "GPUWISE_LEASE=L-7 GPUWISE_BROKER=abc GPUWISE_WORKER=2 CUDA_VISIBLE_DEVICES=n1/0,n1/1";
        assert_eq!(read(text), Some(mark));
    }

    #[test]
    fn a_process_whose_first_thread_has_ended_runs_and_keeps_its_mark() {
        const ENDS_FIRST: &str = "import ctypes, os, threading, time\n\
            threading.Thread(target=time.sleep, args=(600,)).start()\n\
            number = {'x86_64': 60, 'aarch64': 93}[os.uname().machine]\n\
            ctypes.CDLL(None).syscall(number, 0)\n";
        let mut python = std::process::Command::new("python3");
        let spawned = python.args(["-c", ENDS_FIRST]).env(LEASE, "L-7").spawn();
        let Ok(mut child) = spawned else {
            gpuwise_needs::skipped("there is no python3");
            return;
        };
        let pid = i32::try_from(child.id()).expect("a number");
        let over = || {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("is there");
            read(pid, &stat).is_some_and(|(_, over)| over)
        };
        while !over() {
            std::thread::yield_now();
        }
        let (process, mark) = (Process::of(pid), Mark::of(pid));
        child.kill().expect("is ended");
        child.wait().expect("ends");
        assert_eq!(process.map(|one| one.pid), Some(pid));
        assert_eq!(mark.map(|mark| mark.lease), Some("L-7".into()));
        assert_eq!(Process::of(pid), None);
    }
}
