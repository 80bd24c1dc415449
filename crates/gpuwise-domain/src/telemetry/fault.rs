//! What error codes of the driver mean.

use alloc::string::String;

/// Who must act on an error code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultClass {
    /// The device, and who runs it.
    Device,
    /// A link between devices.
    Link,
    /// The program on it.
    Application,
}

/// What an error code (XID) means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XidMeaning {
    /// Who must act.
    pub class: FaultClass,
    /// What happened.
    pub meaning: String,
    /// What to do.
    pub advice: String,
}
