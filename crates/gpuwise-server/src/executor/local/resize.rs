//! Services that get more workers, or fewer: those that stay run on. Other commands are started anew, on all that
//! they have then.

use super::{
    super::asking::{Asking, Waited},
    Local, Running,
    kept::{Kept, Process, Waiting},
    process::{self, Group, Watch},
    ready::addresses,
};
use gpuwise_broker::{Broker, Lease, Observation, OrderId};
use gpuwise_domain::placement::{Assignment, JobId};
use std::{
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};

/// How long a worker that is given up has to end.
const GRACE: Duration = Duration::from_secs(30);

/// Which workers stay, and what others are to be.
struct Change<'a> {
    stay: Vec<Process>,
    go: Vec<Process>,
    come: Vec<(&'a [Assignment], String)>,
}

impl Local {
    /// Starts the workers that a service has more, or ends those that it has no longer; `false`: that cannot be
    /// told apart, and all of it is to be started anew.
    pub(super) fn resized(
        &mut self,
        order: OrderId,
        job: JobId,
        assignments: &[Assignment],
        broker: &Broker,
    ) -> bool {
        let lease = broker
            .lease(job.0)
            .filter(|lease| lease.ask.service.is_some());
        let kept = self.place.kept(job).filter(|kept| !kept.asleep);
        let (Some(lease), Some(kept)) = (lease, kept) else {
            return false;
        };
        let Some(change) = self.change(&kept, assignments, broker) else {
            return false;
        };
        self.turn(order, job, (lease, kept, change), broker)
    }

    fn change<'a>(
        &self,
        kept: &Kept,
        assignments: &'a [Assignment],
        broker: &Broker,
    ) -> Option<Change<'a>> {
        let mut go = kept.processes.clone();
        let (mut stay, mut come) = (Vec::new(), Vec::new());
        for own in assignments.chunks(1) {
            let visible = self.visible(broker, own).ok()?;
            match go.iter().position(|one| one.devices == visible) {
                Some(at) => stay.push(go.remove(at)),
                None => come.push((own, visible)),
            }
        }
        // Where some go and others come, what was cannot be gone back to should those not start.
        let plain = go.is_empty() != come.is_empty();
        let well = stay.iter().all(Process::is_alive);
        (plain && well && !stay.is_empty()).then_some(Change { stay, go, come })
    }

    /// Workers that stay and those that come; the latter wait to be told to begin.
    fn added(
        &self,
        job: JobId,
        lease: &Lease,
        change: &Change<'_>,
        broker: &Broker,
    ) -> Result<(Vec<Process>, Vec<Waiting>), String> {
        let unused =
            |used: &[Process]| (0..=used.len()).find(|at| used.iter().all(|one| one.worker != *at));
        let (mut processes, mut all) = (change.stay.clone(), Vec::new());
        for (own, visible) in &change.come {
            self.none_is_in_use(job, visible)?;
            let worker = unused(&processes).unwrap_or(processes.len());
            let waiting = self.worker(job, lease, (worker, own, visible.clone()), broker)?;
            processes.push(waiting.process.clone());
            all.push(waiting);
        }
        Ok((processes, all))
    }

    fn turn(
        &mut self,
        order: OrderId,
        job: JobId,
        (lease, before, change): (&Lease, Kept, Change<'_>),
        broker: &Broker,
    ) -> bool {
        let Some(watch) = self.running.get(&job).and_then(|one| one.watch.clone()) else {
            return false;
        };
        let Some(service) = &lease.ask.service else {
            return false;
        };
        let (processes, all) = match self.added(job, lease, &change, broker) {
            Ok(added) => added,
            Err(reason) => {
                self.seen.push(Observation::failed(order, reason));
                return true;
            }
        };
        let after = Kept {
            order: order.0,
            devices: self
                .visible(broker, assignments_of(broker, job))
                .unwrap_or_default(),
            asleep: false,
            processes,
        };
        if let Err(reason) = self.go(job, &after, all) {
            self.seen.push(Observation::failed(order, reason));
            return true;
        }
        let fresh: Vec<Arc<Group>> = after.processes[change.stay.len()..]
            .iter()
            .map(|one| self.group(job, one))
            .collect();
        let known = self.running.get(&job).map(|one| one.groups.clone());
        let (gone, mut groups): (Vec<Arc<Group>>, Vec<Arc<Group>>) = known
            .unwrap_or_default()
            .into_iter()
            .partition(|group| change.go.iter().any(|one| one.worker == group.worker()));
        groups.extend(fresh.iter().cloned());
        let running = Running {
            groups: groups.clone(),
            watch: Some(watch.clone()),
        };
        self.running.insert(job, running);
        let stays = change.stay.len();
        let asking = Asking::of(service);
        Turn {
            order,
            watch,
            before,
            after,
            stays,
            fresh,
            gone,
            groups,
        }
        .begin(asking);
        true
    }
}

/// What a job is to have.
fn assignments_of(broker: &Broker, job: JobId) -> &[Assignment] {
    let state = broker.world().job(job);
    state.map_or(&[], |state| &state.assignments)
}

/// A change that is under way.
struct Turn {
    order: OrderId,
    watch: Watch,
    before: Kept,
    after: Kept,
    /// How many of the processes were there before.
    stays: usize,
    fresh: Vec<Arc<Group>>,
    gone: Vec<Arc<Group>>,
    groups: Vec<Arc<Group>>,
}

impl Turn {
    fn begin(self, asking: Asking) {
        let ports = |of: &[Process]| -> Vec<u16> { of.iter().filter_map(|one| one.port).collect() };
        let stay = ports(&self.after.processes[..self.stays]);
        let all = ports(&self.after.processes);
        // Who is to go gets nothing new.
        self.watch.endpoints.set(self.watch.job.0, addresses(&stay));
        for group in &self.gone {
            group.is_told();
        }
        thread::spawn(move || {
            process::end_all(&self.gone, GRACE);
            let ended = || {
                let processes = &self.after.processes[self.stays..];
                processes.iter().any(|one| !one.is_alive())
            };
            let told = match asking.wait(&addresses(&all[stay.len()..]), ended) {
                Waited::Ready => Ok(()),
                Waited::Gone => Err("a worker that was added has ended before it was ready".into()),
                Waited::Late(reason) => Err(reason),
            };
            self.over(told, &all);
        });
    }

    fn over(self, told: Result<(), String>, all: &[u16]) {
        let watch = &self.watch;
        let order = self.order;
        let observed = match told {
            Ok(()) => {
                watch.order.store(order.0, Ordering::SeqCst);
                watch.endpoints.set(watch.job.0, addresses(all));
                for group in &self.fresh {
                    watch.clone().watch(Arc::clone(group), self.groups.clone());
                }
                Observation::Done(order)
            }
            Err(reason) => {
                for group in &self.fresh {
                    group.is_told();
                }
                process::end_all(&self.fresh, Duration::from_secs(10));
                // Those that were there before run on. Where that cannot be noted, a restart finds fewer workers.
                let _ = watch.place.keep(watch.job, &self.before);
                Observation::failed(order, reason)
            }
        };
        watch.tell(observed);
    }
}
