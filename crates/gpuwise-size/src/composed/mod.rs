//! GPUs put together from a pool over a fabric: what that costs in speed and saves in idle hours.
