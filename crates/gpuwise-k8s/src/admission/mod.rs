//! The mutating webhook: which pods wait for a decision, and the certificates it answers with.
