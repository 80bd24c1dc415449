//! What a part of a GPU takes under each way of sharing, and what that keeps apart.
