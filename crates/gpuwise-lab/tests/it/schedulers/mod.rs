//! Published schedulers and the replays of their traces.

mod gavel;
mod genai;
mod philly;
mod rounds;
