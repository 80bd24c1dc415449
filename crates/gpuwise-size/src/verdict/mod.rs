//! Whether what runs is over-provisioned, right-sized or starved, and of what.
