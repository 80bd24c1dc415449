//! GPUs of a pod: what it asks of device plugins, as far as a node's can give it.

use super::ask::WHOLE;
use crate::inventory::WHOLE_GPUS;
use gpuwise_broker::Broker;
use gpuwise_domain::placement::{Assignment, Isolation, Part};
use k8s_openapi::api::core::v1::Node;
use std::collections::BTreeMap;

/// What of a GPU a worker has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Device {
    Whole,
    /// A MIG instance of a profile, as resources are named.
    Mig(String),
    /// Thousandths of a GPU's time.
    Share {
        milli: u32,
        mps: bool,
    },
}

/// How a node gives its GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gives {
    /// The resource by which it counts them.
    pub(super) whole: &'static str,
    /// How often each is given: more than once under time slicing or MPS.
    times: u32,
    mps: bool,
}

impl Default for Gives {
    fn default() -> Self {
        Self {
            whole: WHOLE,
            times: 1,
            mps: false,
        }
    }
}

impl Gives {
    pub(super) fn of(node: &Node) -> Self {
        let room = node
            .status
            .as_ref()
            .and_then(|status| status.allocatable.as_ref());
        let has = |name: &&&str| room.is_some_and(|room| room.contains_key(**name));
        let label = |key: &str| {
            let labels = node.metadata.labels.as_ref()?;
            labels.get(key).map(String::as_str)
        };
        let times = label("nvidia.com/gpu.replicas").and_then(|text| text.parse().ok());
        Self {
            whole: WHOLE_GPUS.iter().find(has).copied().unwrap_or(WHOLE),
            times: times.unwrap_or(1).max(1),
            mps: label("nvidia.com/gpu.sharing-strategy") == Some("mps"),
        }
    }

    /// What of this node is asked for so many of a device, by resource.
    fn resource(self, device: &Device, count: u32) -> Result<String, String> {
        let times = self.times;
        match device {
            Device::Whole if times > 1 => Err(format!(
                "it gives each GPU {times} times, and no whole one can be had there"
            )),
            Device::Mig(profile) => Ok(format!("nvidia.com/mig-{profile}")),
            Device::Share { .. } if times == 1 => Err(
                "it gives whole GPUs alone; its device plugin shares them where it is set up so (time slicing, MPS)".into(),
            ),
            Device::Share { mps: true, .. } if !self.mps => {
                Err("it shares GPUs by turns, and not by MPS".into())
            }
            // Which GPU each is of is the device plugin's choice: two may be of one.
            Device::Share { .. } if count > 1 => {
                Err("a pod can have a share of one GPU there, and not of several".into())
            }
            Device::Share { milli, .. } if milli.saturating_mul(times).abs_diff(1000) >= times => {
                let asked = f64::from(*milli) / 1000.0;
                Err(format!(
                    "it gives each GPU {times} times: a share there is {:.3}, and {asked} was asked for",
                    1.0 / f64::from(times)
                ))
            }
            Device::Whole | Device::Share { .. } => Ok(self.whole.to_owned()),
        }
    }

    /// Resources of a pod by name, or why this node has none such.
    pub(super) fn resources(
        self,
        devices: &BTreeMap<Device, u32>,
        node: &str,
    ) -> Result<BTreeMap<String, u32>, String> {
        let each = devices.iter().map(|(device, count)| {
            let name = self.resource(device, *count);
            name.map(|name| (name, *count))
                .map_err(|why| format!("{node}: {why}"))
        });
        each.collect()
    }
}

/// What a worker has, or why pods cannot have that.
pub(super) fn of(
    one: &Assignment,
    broker: &Broker,
    by_claims: bool,
) -> Result<BTreeMap<Device, u32>, String> {
    let world = broker.world();
    let mut devices = BTreeMap::new();
    for share in &one.gpus {
        let device = match share.part {
            Part::Whole => Device::Whole,
            _ if by_claims => {
                return Err(
                    "pods claim whole GPUs of one device class, and no shares or MIG instances"
                        .into(),
                );
            }
            Part::Fraction {
                milli, isolation, ..
            } => match isolation {
                Isolation::TimeSlice | Isolation::Mps => Device::Share {
                    milli,
                    mps: isolation == Isolation::Mps,
                },
                Isolation::Vgpu { .. } | Isolation::Pair { .. } => {
                    return Err("pods share a GPU by turns or by MPS, and not so".into());
                }
            },
            Part::Slice { shape, .. } => {
                let kind = world
                    .gpu(share.gpu)
                    .and_then(|gpu| world.kind(gpu.gpu.kind));
                let mig = kind.and_then(|kind| kind.mig.as_ref());
                let shape = mig.and_then(|mig| mig.shapes.get(usize::from(shape)));
                let shape = shape.ok_or("the fleet does not say which MIG profile it is")?;
                Device::Mig(shape.profile.replace('+', "."))
            }
        };
        *devices.entry(device).or_insert(0) += 1;
    }
    Ok(devices)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn gives(labels: &[(&str, &str)], resource: &str) -> Gives {
        let labels: BTreeMap<&str, &str> = labels.iter().copied().collect();
        let room = BTreeMap::from([(resource, "8")]);
        let node = json!({"metadata": {"labels": labels}, "status": {"allocatable": room}});
        Gives::of(&serde_json::from_value(node).expect("a node"))
    }

    #[test]
    fn a_node_gives_what_its_device_plugin_offers() {
        let (turns, mps) = (
            ("nvidia.com/gpu.replicas", "4"),
            ("nvidia.com/gpu.sharing-strategy", "mps"),
        );
        let whole = gives(&[], "amd.com/gpu");
        let shared = gives(&[turns], "nvidia.com/gpu.shared");
        let by_mps = gives(&[turns, mps], WHOLE);
        let share = |milli, mps| Device::Share { milli, mps };
        let asked = |node: Gives, device, count| {
            let all = node.resources(&BTreeMap::from([(device, count)]), "n");
            all.map(|all| all.into_keys().next().unwrap_or_default())
        };
        assert_eq!(asked(whole, Device::Whole, 8), Ok("amd.com/gpu".into()));
        assert_eq!(
            asked(shared, share(250, false), 1),
            Ok("nvidia.com/gpu.shared".into())
        );
        assert_eq!(asked(by_mps, share(250, true), 1), Ok(WHOLE.into()));
        let mig = Device::Mig("1g.10gb.me".into());
        assert_eq!(asked(whole, mig, 2), Ok("nvidia.com/mig-1g.10gb.me".into()));
        // A third is 333 thousandths.
        let thirds = gives(&[("nvidia.com/gpu.replicas", "3")], WHOLE);
        assert!(asked(thirds, share(333, false), 1).is_ok());
        for (node, device, count) in [
            (shared, Device::Whole, 1),
            (whole, share(250, false), 1),
            (shared, share(500, false), 1),
            (shared, share(250, false), 2),
            (shared, share(250, true), 1),
        ] {
            let why = asked(node, device, count).expect_err("is not to be had");
            assert!(why.starts_with("n: "), "{why}");
        }
    }
}
