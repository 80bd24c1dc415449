//! Under load: replicas that share one queue and take what waits, up to a batch.
//!
//! Inputs arrive at random (Poisson). A replica that is free takes all that wait, at most
//! `most`. Batches of one: M/D/k, with the mean wait of its heavy-traffic form. Larger ones: a
//! request waits until the first of the replicas is free, whose batches are at independent points
//! of their time; longer where more than a batch waits (an exponential tail); and then for its own
//! batch, which holds what came meanwhile. Against a simulation: tails within 20 %.

use crate::serving::normal_quantile;

/// Replicas with one queue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fleet {
    pub replicas: u32,
    /// Inputs of a batch at most.
    pub most: u32,
    /// Inputs a second, over all.
    pub rate: f64,
}

/// What a fleet comes to under its load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Served {
    /// The rate over the largest that it sustains.
    pub load: f64,
    /// Inputs of a batch, in the mean.
    pub batch: f64,
    pub seconds: f64,
    /// Share of time in which a replica works.
    pub busy: f64,
    /// Share of requests that wait.
    waits: f64,
    /// Mean seconds of waiting beyond the first replica to be free.
    beyond: f64,
    fleet: Fleet,
}

impl Fleet {
    /// The largest rate that the fleet sustains, if `seconds` is the time of a batch of so many.
    pub fn largest_rate(&self, seconds: &dyn Fn(f64) -> f64) -> f64 {
        let most = f64::from(self.most.max(1));
        f64::from(self.replicas) * most / seconds(most)
    }

    /// What it comes to; `None` where the rate is not borne.
    pub fn serve(&self, seconds: &dyn Fn(f64) -> f64) -> Option<Served> {
        let load = self.rate / self.largest_rate(seconds);
        if !load.is_finite() || load >= 1.0 || self.replicas == 0 {
            return None;
        }
        let most = f64::from(self.most.max(1));
        let replicas = f64::from(self.replicas);
        // While all replicas are busy, what arrives between two that become free is a batch; one
        // replica that is free takes one.
        let mut batch = 1.0;
        for _ in 0..200 {
            let arriving = self.rate * seconds(batch) / replicas;
            let least = if self.replicas == 1 {
                libm::exp(-arriving)
            } else {
                0.0
            };
            let wanted = (arriving + least).clamp(1.0, most);
            if libm::fabs(wanted - batch) < 1e-6 * batch {
                break;
            }
            batch = 0.5 * (batch + wanted);
        }
        let time = seconds(batch);
        let offered = self.rate * time / batch;
        let alone = self.rate * seconds(1.0);
        Some(Served {
            load,
            batch,
            seconds: time,
            busy: (offered / replicas).min(1.0),
            waits: if alone >= replicas {
                1.0
            } else {
                erlang_c(self.replicas, alone)
            },
            beyond: seconds(most) / (2.0 * replicas * most) * load / (1.0 - load),
            fleet: *self,
        })
    }
}

impl Served {
    /// Seconds from request to result that this fraction of requests does not exceed.
    pub fn latency(&self, fraction: f64, seconds: &dyn Fn(f64) -> f64) -> f64 {
        let wait = self.wait(fraction);
        if self.fleet.most <= 1 {
            return self.seconds + wait;
        }
        let came = self.came(wait);
        let spread = if self.batch > 1.001 {
            0.5 * normal_quantile(fraction) * libm::sqrt(came)
        } else {
            0.0
        };
        seconds((came + spread).clamp(1.0, f64::from(self.fleet.most))) + wait
    }

    /// Mean seconds from request to result.
    pub fn mean_latency(&self, seconds: &dyn Fn(f64) -> f64) -> f64 {
        let replicas = f64::from(self.fleet.replicas);
        if self.fleet.most <= 1 {
            return self.seconds + self.waits * (self.seconds / replicas / 2.0 + self.beyond);
        }
        let free = self.seconds / (replicas + 1.0);
        let own = seconds(self.came(self.waits * free));
        own + self.waits * (free + self.beyond)
    }

    /// Inputs of the batch of a request that waited so long.
    fn came(&self, wait: f64) -> f64 {
        let came = 1.0 + self.fleet.rate * wait.min(self.seconds);
        came.max(self.batch).min(f64::from(self.fleet.most))
    }

    fn wait(&self, fraction: f64) -> f64 {
        let rest = 1.0 - fraction;
        if rest >= self.waits {
            return 0.0;
        }
        let among = 1.0 - rest / self.waits;
        let replicas = f64::from(self.fleet.replicas);
        let beyond = self.beyond * libm::log(1.0 / (1.0 - among));
        if self.fleet.most > 1 {
            // The first of so many that end at independent times.
            return self.seconds * (1.0 - libm::pow(1.0 - among, 1.0 / replicas)) + beyond;
        }
        // A uniform wait and an exponential one: their sum's quantile lies between the two.
        let gap = self.seconds / replicas;
        let uniform = (among - 0.5) * gap * libm::exp(-self.beyond / gap.max(1e-12));
        (gap / 2.0 + uniform + beyond).max(0.0)
    }
}

/// The share of requests that wait in M/M/k with this offered load (Erlang's C).
fn erlang_c(servers: u32, offered: f64) -> f64 {
    // Erlang's B by its recursion, then C from B.
    let mut blocked = 1.0;
    for server in 1..=servers {
        blocked = offered * blocked / (f64::from(server) + offered * blocked);
    }
    let busy = offered / f64::from(servers.max(1));
    if busy >= 1.0 {
        return 1.0;
    }
    blocked / (1.0 - busy * (1.0 - blocked))
}
