//! The parts of Redfish's resources that composing needs.

use serde::Deserialize;

/// A link to a resource.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Ref {
    #[serde(rename = "@odata.id")]
    pub(crate) path: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct Root {
    pub(super) systems: Option<Ref>,
    pub(super) composition_service: Option<Ref>,
    pub(super) session_service: Option<Ref>,
    pub(super) links: RootLinks,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct RootLinks {
    pub(super) sessions: Option<Ref>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct Composition {
    pub(super) service_enabled: Option<bool>,
    pub(super) resource_blocks: Option<Ref>,
    pub(super) resource_zones: Option<Ref>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Collection {
    #[serde(rename = "Members")]
    pub(super) members: Vec<Ref>,
    /// The rest of a long list.
    #[serde(rename = "Members@odata.nextLink")]
    pub(super) next: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct Status {
    state: Option<String>,
    health: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct CompositionStatus {
    composition_state: Option<String>,
    reserved: Option<bool>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct BlockLinks {
    computer_systems: Vec<Ref>,
    zones: Vec<Ref>,
}

/// A resource block.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Block {
    #[serde(rename = "@odata.id")]
    pub(crate) path: String,
    pub(crate) id: String,
    pub(super) resource_block_type: Vec<String>,
    composition_status: CompositionStatus,
    status: Status,
    pub(super) processors: Vec<Ref>,
    pub(super) memory: Vec<Ref>,
    links: BlockLinks,
}

/// What can be done with a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Nobody has it.
    Unused,
    /// Somebody who composes has put his name on it.
    Reserved,
    /// It is on its way into a system, or out of it.
    Moving,
    Composed,
    /// It is there and does not work, or is not there now.
    Failed,
}

impl Block {
    /// The same by the path at which it was asked for.
    pub(crate) fn at(mut self, path: String) -> Self {
        self.path = path;
        self
    }

    pub(crate) fn state(&self) -> State {
        let broken = matches!(
            self.status.state.as_deref(),
            Some("Absent" | "Disabled" | "UnavailableOffline")
        ) || self.status.health.as_deref() == Some("Critical");
        match self.composition_status.composition_state.as_deref() {
            Some("Failed" | "Unavailable") => State::Failed,
            _ if broken => State::Failed,
            Some("Composing") => State::Moving,
            Some("Composed" | "ComposedAndAvailable") => State::Composed,
            Some("Unused") if self.composition_status.reserved == Some(true) => State::Reserved,
            Some("Unused") => State::Unused,
            // What is not said of one that no system has.
            _ if self.links.computer_systems.is_empty() => State::Unused,
            _ => State::Composed,
        }
    }

    /// The system that has it.
    pub(crate) fn system(&self) -> Option<&str> {
        self.links
            .computer_systems
            .first()
            .map(|one| one.path.as_str())
    }

    pub(crate) fn zones(&self) -> impl Iterator<Item = &str> {
        self.links.zones.iter().map(|zone| zone.path.as_str())
    }

    pub(super) fn is(&self, kind: &str) -> bool {
        self.resource_block_type.iter().any(|one| one == kind)
    }

    /// Whether a host is made of it.
    pub(super) fn is_host(&self) -> bool {
        self.is("Compute") || self.is("ComputerSystem")
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct SystemLinks {
    resource_blocks: Vec<Ref>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Target {
    target: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Actions {
    #[serde(rename = "#ComputerSystem.AddResourceBlock")]
    add: Option<Target>,
    #[serde(rename = "#ComputerSystem.RemoveResourceBlock")]
    remove: Option<Target>,
}

/// A computer system.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct System {
    #[serde(rename = "@odata.id")]
    pub(crate) path: String,
    pub(crate) id: String,
    pub(crate) name: String,
    links: SystemLinks,
    actions: Actions,
}

impl System {
    /// Paths of its blocks.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = &str> {
        self.links
            .resource_blocks
            .iter()
            .map(|one| one.path.as_str())
    }

    /// Where a block is added to it and where one is removed, while it runs; `None`: it is not possible so.
    pub(crate) fn changes(&self) -> Option<(&str, &str)> {
        let (add, remove) = self
            .actions
            .add
            .as_ref()
            .zip(self.actions.remove.as_ref())?;
        Some((&add.target, &remove.target))
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct Processor {
    /// Such as `GPU`.
    #[serde(rename = "ProcessorType")]
    pub(super) kind: Option<String>,
    pub(super) manufacturer: Option<String>,
    pub(super) model: Option<String>,
    pub(super) total_cores: Option<u32>,
    #[serde(rename = "ProcessorMemory")]
    pub(super) memories: Vec<Memory>,
    pub(super) memory_summary: MemorySummary,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct MemorySummary {
    #[serde(rename = "TotalMemorySizeMiB")]
    pub(super) mib: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Memory {
    #[serde(rename = "CapacityMiB")]
    pub(super) mib: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ZoneDocument {
    #[serde(rename = "Id")]
    pub(super) id: String,
    #[serde(rename = "@Redfish.CollectionCapabilities")]
    pub(super) capabilities: Capabilities,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct Capabilities {
    pub(super) capabilities: Vec<Capability>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct Capability {
    pub(super) capabilities_object: Ref,
    pub(super) use_case: String,
}

/// What may be said when a system is created, and changed afterwards.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct Creating {
    pub(super) links: CreatingLinks,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CreatingLinks {
    #[serde(rename = "ResourceBlocks@Redfish.UpdatableAfterCreate")]
    pub(super) updatable: bool,
}

/// How far a task is.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct Task {
    pub(super) task_state: Option<String>,
}

/// Why something was refused.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ErrorDocument {
    pub(super) error: ErrorBody,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ErrorBody {
    pub(super) code: String,
    pub(super) message: String,
    #[serde(rename = "@Message.ExtendedInfo")]
    pub(super) more: Vec<Message>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct Message {
    pub(super) message_id: String,
    pub(super) message: String,
}
