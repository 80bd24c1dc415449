//! How long a training step takes, and what that is spent on.
