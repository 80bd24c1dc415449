//! Requests to come: generators, traces, and what is done to them.
