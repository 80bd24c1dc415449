//! What is shown, held against what it should look like.

mod figures;
mod table;
