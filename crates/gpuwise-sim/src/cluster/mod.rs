//! Replicas behind a router: where requests go, what fails, what is retried.
