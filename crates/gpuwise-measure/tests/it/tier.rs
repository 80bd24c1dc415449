//! Tier choice: choosing, judging, scaling, rules, the decision, and moves.

mod deciding;
mod judging;
mod moving;
mod timings;
