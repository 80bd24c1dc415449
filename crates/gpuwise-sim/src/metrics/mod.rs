//! What a run came to: exact distributions, goodput, use of memory and money.
