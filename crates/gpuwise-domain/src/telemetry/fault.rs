//! What error codes of the driver mean.

use alloc::string::String;

/// Who must act on an error code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultClass {
    /// The device, and who runs it.
    Device,
    /// A link between devices.
    Link,
    Application,
}

/// What an error code (XID) means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XidMeaning {
    pub class: FaultClass,
    pub meaning: String,
    pub advice: String,
}
