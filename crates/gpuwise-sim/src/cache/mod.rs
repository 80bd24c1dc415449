//! Cache memory in blocks: who holds what, what is found again, what goes first.
