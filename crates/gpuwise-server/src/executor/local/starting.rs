//! What starts on this machine: supervisors of workers, noted before they are told to begin.

#[cfg(test)]
use super::tests;
use super::{
    Local, PATIENCE, environment,
    kept::{self, Kept},
    process::{self, Group, Owner},
    tree, weights,
};
use gpuwise_broker::{Broker, Lease, OrderId};
use gpuwise_domain::placement::{Assignment, JobId};
use std::{net::TcpListener, sync::Arc, thread, time::Duration};

impl Local {
    /// Starts the processes of a lease: one, or of a service one for each worker.
    pub(super) fn spawn(
        &self,
        order: OrderId,
        job: JobId,
        lease: &Lease,
        assignments: &[Assignment],
        broker: &Broker,
    ) -> Result<Kept, String> {
        let workers: Vec<&[Assignment]> = match &lease.ask.service {
            Some(_) => assignments.chunks(1).collect(),
            None => vec![assignments],
        };
        let mut kept = Kept {
            order: order.0,
            processes: Vec::new(),
            devices: self.visible(broker, assignments)?,
            asleep: false,
        };
        self.none_is_in_use(job, &kept.devices)?;
        let visible: Result<Vec<String>, String> = workers
            .iter()
            .map(|own| self.visible(broker, own))
            .collect();
        let mut all = Vec::new();
        for (worker, (own, visible)) in workers.into_iter().zip(visible?).enumerate() {
            let waiting = self.worker(job, lease, (worker, own, visible), broker)?;
            kept.processes.push(waiting.process.clone());
            all.push(waiting);
        }
        self.go(job, &kept, all)?;
        Ok(kept)
    }

    /// Notes what is about to run, and then lets it.
    pub(super) fn go(
        &self,
        job: JobId,
        kept: &Kept,
        all: Vec<kept::Waiting>,
    ) -> Result<(), String> {
        #[cfg(test)]
        self.stops_at(tests::Stop::Spawned)?;
        self.place
            .keep(job, kept)
            .map_err(|error| format!("what runs cannot be noted: {error}"))?;
        #[cfg(test)]
        self.stops_at(tests::Stop::Noted)?;
        let fresh: Vec<kept::Process> = all.iter().map(|one| one.process.clone()).collect();
        let gone = all.into_iter().try_for_each(kept::Waiting::go);
        #[cfg(test)]
        self.stops_at(tests::Stop::Begun)?;
        gone.inspect_err(|_| {
            let groups: Vec<Arc<Group>> = fresh.iter().map(|one| self.group(job, one)).collect();
            thread::spawn(move || process::end_all(&groups, Duration::ZERO));
        })
    }

    /// The processes of a worker.
    pub(super) fn group(&self, job: JobId, process: &kept::Process) -> Arc<Group> {
        Arc::new(Group::new(self.owner(job), process.clone()))
    }

    fn owner(&self, job: JobId) -> Owner {
        Owner {
            broker: self.broker.clone(),
            job,
            remains: self.shows.remains.clone(),
        }
    }

    /// Ends what was noted of a job, and forgets it.
    pub(super) fn ended(&self, job: JobId, kept: &Kept) -> Result<(), String> {
        for one in &kept.processes {
            self.group(job, one).end_in(Duration::ZERO, PATIENCE)?;
        }
        self.place.forget(job);
        Ok(())
    }

    /// Starts one worker on its GPUs.
    pub(super) fn worker(
        &self,
        job: JobId,
        lease: &Lease,
        (worker, own, visible): (usize, &[Assignment], String),
        broker: &Broker,
    ) -> Result<kept::Waiting, String> {
        // At it a service answers, or what runs tells its metrics.
        let port = if lease.ask.service.is_some() || lease.ask.metrics.is_some() {
            Some(free_port().map_err(|error| format!("no port is free: {error}"))?)
        } else {
            None
        };
        let account = self.settings.run_as.of_tenant(&lease.ask.tenant)?;
        let mut command = environment::command(lease, visible, own, worker, port);
        for (variable, name) in &lease.ask.secrets {
            let read = self.secrets.read(&lease.ask.tenant, name);
            let value = read.map_err(|error| format!("secret {name:?} cannot be read: {error}"))?;
            command.environment.insert(variable.clone(), value);
        }
        let mut all = environment::base(account, &self.settings.passed);
        all.append(&mut command.environment);
        command.environment = all;
        let state = broker.world().job(job);
        let asked = state.map(|state| (state.job.worker.cpu_milli, state.job.worker.memory_mib));
        let (cpu_milli, memory_mib) = asked.unwrap_or_default();
        let group = self.limits.group(job, worker, cpu_milli, memory_mib);
        let begin = kept::Begin {
            job,
            worker,
            port,
            launch: &command,
            account,
            group,
            log_size: self.settings.log_size,
            umask: self.settings.umask,
            broker: &self.broker,
        };
        self.place.ready(&self.supervisor, begin)
    }

    /// How commands run that a lease has beside its own.
    pub(super) fn of_tenant(&self, lease: &Lease) -> Result<weights::CommandSettings, String> {
        let tenant = &lease.ask.tenant;
        let account = self.settings.run_as.of_tenant(tenant)?;
        let mut environment = environment::base(account, &self.settings.passed);
        environment.insert(tree::BROKER.into(), self.broker.clone());
        environment.insert(tree::LEASE.into(), lease.id());
        environment.insert("GPUWISE_TENANT".into(), tenant.clone());
        Ok(weights::CommandSettings {
            account: account.cloned(),
            environment,
            umask: self.settings.umask,
            supervisor: self.supervisor.clone(),
            place: self.place.clone(),
            owner: self.owner(lease.job()),
        })
    }
}

/// A port that nobody listens on now.
fn free_port() -> std::io::Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    Ok(listener.local_addr()?.port())
}
