//! The loop: leads or waits, sees, decides, writes.
