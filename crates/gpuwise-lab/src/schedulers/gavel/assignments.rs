//! From allocations to places: which GPUs, as plans and events of the kernel's world.

use gpuwise_domain::placement::{
    Action, Assignment, Cause, Ended, Event, Gang, GpuAsk, GpuId, GpuShare, Isolation, Job, JobId,
    Kinds, Need, NodeId, Part, Plan, Preemption, TimestampedEvent, WorkerAsk,
};
use gpuwise_sched::world::{Refused, World};
use gpuwise_sim::fleet::PlansHash;
use gpuwise_units::Nanoseconds;
use std::collections::BTreeMap;

/// Half of a GPU's time, in thousandths: what each asks for where GPUs are shared.
const HALF: u32 = 500;

/// A world of nodes with one GPU each, as in the published runs, and who is where.
pub(super) struct Placements {
    world: World,
    /// Whether jobs ask for halves of GPUs, so that two can share.
    shared: bool,
    /// GPUs of each kind, by number.
    kinds: Vec<Vec<u32>>,
    /// GPUs of those who run, and GPUs that each job needs.
    at: BTreeMap<u32, Vec<u32>>,
    needs: BTreeMap<u32, u32>,
    pub(super) plans: PlansHash,
    pub(super) starts: u64,
}

fn at(seconds: f64) -> Nanoseconds {
    Nanoseconds((seconds * 1e9).round() as u64)
}

impl Placements {
    pub(super) fn new(supply: &[(String, u32)], shared: bool) -> Self {
        let fleet = super::jobs::fleet(supply);
        let mut first = 0;
        let numbers = supply.iter().map(|(_, count)| {
            first += count;
            (first - count..first).collect()
        });
        let kinds = numbers.collect();
        Self {
            world: World::new(&fleet),
            shared,
            kinds,
            at: BTreeMap::new(),
            needs: BTreeMap::new(),
            plans: PlansHash::default(),
            starts: 0,
        }
    }

    /// A job is asked for.
    pub(super) fn come(&mut self, number: u32, gpus: u32, now_s: f64) -> Result<(), Refused> {
        let gpu = if self.shared {
            GpuAsk::Fraction {
                milli: HALF,
                memory_mib: None,
                isolation: Isolation::TimeSlice,
                kinds: Kinds::ANY,
            }
        } else {
            GpuAsk::Whole {
                count: 1,
                kinds: Kinds::ANY,
                need: Need::default(),
            }
        };
        self.needs.insert(number, gpus);
        let job = Job {
            submitted: at(now_s),
            gang: Gang::exactly(gpus),
            preemption: Preemption::Allowed {
                checkpoint_every: Nanoseconds(0),
                restart: Nanoseconds(0),
            },
            ..Job::new(
                JobId(number),
                number.to_string(),
                WorkerAsk {
                    cpu_milli: 0,
                    memory_mib: 0,
                    gpu,
                },
            )
        };
        self.world.apply(&TimestampedEvent {
            at: at(now_s),
            event: Event::Submitted(job),
        })
    }

    pub(super) fn end(&mut self, number: u32, now_s: f64) -> Result<(), Refused> {
        self.at.remove(&number);
        self.needs.remove(&number);
        self.world.apply(&TimestampedEvent {
            at: at(now_s),
            event: Event::Ended {
                job: JobId(number),
                how: Ended::Finished,
            },
        })
    }

    /// Who runs in the next round: a job, its partner and their kind. Who stays on its kind keeps its
    /// GPUs where nobody has them yet; large jobs choose first.
    pub(super) fn assignment(
        &mut self,
        parties: &[(u32, Option<u32>, usize)],
        now_s: f64,
        watch: &mut impl FnMut(&World, &Plan),
    ) -> Result<(), Refused> {
        let next = self.choose(parties);
        let made = at(now_s);
        let mut actions: Vec<Action> = (self.at.iter())
            .filter(|(number, gpus)| next.get(number) != Some(gpus))
            .map(|(number, _)| Action::Preempt {
                job: JobId(*number),
                cause: Cause::RoundEnd,
            })
            .collect();
        let starting = next
            .iter()
            .filter(|(number, gpus)| self.at.get(number) != Some(gpus));
        let places = starting.map(|(number, gpus)| Action::Place {
            job: JobId(*number),
            assignments: gpus.iter().map(|gpu| self.seat_on(*gpu)).collect(),
        });
        let before = actions.len();
        actions.extend(places);
        self.starts += (actions.len() - before) as u64;
        if actions.is_empty() {
            return Ok(());
        }
        let parent = self.world.target();
        let plan = Plan {
            number: parent + 1,
            parent,
            made,
            actions,
        };
        self.plans.add(&plan);
        watch(&self.world, &plan);
        self.world.accept(&plan)?;
        for action in plan.actions {
            self.world.apply(&TimestampedEvent {
                at: made,
                event: Event::done(action),
            })?;
        }
        self.at = next;
        Ok(())
    }

    fn seat_on(&self, gpu: u32) -> Assignment {
        let part = if self.shared {
            Part::Fraction {
                milli: HALF,
                memory_mib: 0,
                isolation: Isolation::TimeSlice,
            }
        } else {
            Part::Whole
        };
        Assignment {
            node: NodeId(gpu),
            gpus: vec![GpuShare {
                gpu: GpuId(gpu),
                part,
            }],
        }
    }

    fn choose(&self, parties: &[(u32, Option<u32>, usize)]) -> BTreeMap<u32, Vec<u32>> {
        let mut free: Vec<Vec<u32>> = self.kinds.clone();
        let mut order: Vec<&(u32, Option<u32>, usize)> = parties.iter().collect();
        let needs = |number: u32| self.needs.get(&number).copied().unwrap_or(1) as usize;
        order.sort_by_key(|(number, ..)| std::cmp::Reverse(needs(*number)));
        let mut next = BTreeMap::new();
        let mut give = |party: &(u32, Option<u32>, usize), gpus: Vec<u32>| {
            if let Some(partner) = party.1 {
                next.insert(partner, gpus.clone());
            }
            next.insert(party.0, gpus);
        };
        let mut moving = Vec::new();
        for party in order {
            let Some(free) = free.get_mut(party.2) else {
                continue;
            };
            let mut before = std::iter::once(party.0)
                .chain(party.1)
                .filter_map(|number| self.at.get(&number));
            let stays = before.find(|gpus| gpus.iter().all(|gpu| free.binary_search(gpu).is_ok()));
            match stays {
                Some(gpus) => {
                    free.retain(|gpu| !gpus.contains(gpu));
                    give(party, gpus.clone());
                }
                None => moving.push(party),
            }
        }
        for party in moving {
            if let Some(free) = free.get_mut(party.2) {
                let count = needs(party.0).min(free.len());
                give(party, free.drain(..count).collect());
            }
        }
        next
    }
}
