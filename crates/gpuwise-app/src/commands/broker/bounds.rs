//! Bounds of what may be asked of a broker, as flags of `gpuwise serve`.

use crate::error::Problem;
use clap::Args;
use gpuwise_server::{ConnectionBounds, EnginePatience, TenantBounds};
use gpuwise_units::{Bytes, Nanoseconds};
use std::time::Duration;

#[derive(Debug, Args)]
pub(super) struct BoundFlags {
    /// Connections at once; beyond them the one that has waited longest for a request is closed [default: as many as
    /// the limit of open files leaves, at most 8192]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    connections: Option<u32>,
    /// Of them, those of one address [default: half]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    connections_per_address: Option<u32>,
    /// How long the head of a request may take
    #[arg(long, value_name = "TIME", default_value = "10s")]
    head_timeout: Nanoseconds,
    /// How long the body of a request may take
    #[arg(long, value_name = "TIME", default_value = "1min")]
    body_timeout: Nanoseconds,
    /// How long a connection may stay open without a request
    #[arg(long, value_name = "TIME", default_value = "75s")]
    idle_timeout: Nanoseconds,
    /// How long a client may take nothing of an answer
    #[arg(long, value_name = "TIME", default_value = "1min")]
    write_timeout: Nanoseconds,
    /// Leases of a tenant that may wait for their first place; more are answered 429; 0: no bound
    #[arg(long, value_name = "N", default_value_t = 1000)]
    tenant_waiting: u32,
    /// Streams of events that a tenant may have open; more are answered 429
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    tenant_streams: u32,
    /// Size of a request for a lease, with its command and environment; a larger one is answered 413
    #[arg(long, value_name = "SIZE", default_value = "64KiB")]
    lease_size: Bytes,
}

/// A time that is not none.
pub(super) fn time(flag: &str, span: Nanoseconds) -> anyhow::Result<Duration> {
    if span.0 == 0 {
        return Err(Problem::new(format!("{flag}: expected more than no time")).into());
    }
    Ok(Duration::from_nanos(span.0))
}

impl BoundFlags {
    /// What each tenant may have at most.
    pub(super) fn tenant(&self) -> anyhow::Result<TenantBounds> {
        if self.lease_size.count() == 0 {
            return Err(Problem::new("--lease-size: expected more than nothing").into());
        }
        Ok(TenantBounds {
            waiting: Some(self.tenant_waiting).filter(|most| *most > 0),
            lease_bytes: self.lease_size.count(),
            streams: self.tenant_streams,
        })
    }

    /// How many connections there may be, and how long each may be silent.
    pub(super) fn connections(&self) -> anyhow::Result<ConnectionBounds> {
        let count = |count: Option<u32>| count.map(|count| count as usize);
        let bounds = ConnectionBounds {
            head: time("--head-timeout", self.head_timeout)?,
            body: time("--body-timeout", self.body_timeout)?,
            idle: time("--idle-timeout", self.idle_timeout)?,
            write: time("--write-timeout", self.write_timeout)?,
            ..ConnectionBounds::default()
        };
        let (all, each) = (count(self.connections), count(self.connections_per_address));
        bounds.with(all, each).map_err(|error| {
            Problem::new(format!("--connections: {error}"))
                .hint("raise the limit (ulimit -n, LimitNOFILE of systemd), or ask for fewer")
                .into()
        })
    }
}

#[derive(Debug, Args)]
pub(super) struct PatienceFlags {
    /// How long an engine may take to begin an answer; then the request is given up with 504
    #[arg(long, value_name = "TIME", default_value = "10min")]
    engine_first_byte: Nanoseconds,
    /// How long an engine may be silent within an answer
    #[arg(long, value_name = "TIME", default_value = "1min")]
    engine_silence: Nanoseconds,
    /// How often each worker of a service is asked whether it is well, once it was ready
    #[arg(long, value_name = "TIME", default_value = "5s")]
    health_every: Nanoseconds,
    /// How long the answer to that may take
    #[arg(long, value_name = "TIME", default_value = "5s")]
    health_within: Nanoseconds,
    /// Questions in a row without a good answer, after which a worker gets no requests until it is well
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    health_failures: u32,
    /// After so long in which none of its workers was well a service ends, and is billed no more [default: never]
    #[arg(long, value_name = "TIME")]
    unwell_ends: Option<Nanoseconds>,
}

impl PatienceFlags {
    /// How long engines may be silent, and how they are asked whether they are well.
    pub(super) fn patience(&self) -> anyhow::Result<EnginePatience> {
        let ends = self.unwell_ends.map(|span| time("--unwell-ends", span));
        Ok(EnginePatience {
            first: time("--engine-first-byte", self.engine_first_byte)?,
            between: time("--engine-silence", self.engine_silence)?,
            every: time("--health-every", self.health_every)?,
            within: time("--health-within", self.health_within)?,
            failures: self.health_failures,
            ends: ends.transpose()?,
        })
    }
}
