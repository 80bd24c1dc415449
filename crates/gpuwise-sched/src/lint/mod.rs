//! An independent check of plans against a world: what no plan may do.
