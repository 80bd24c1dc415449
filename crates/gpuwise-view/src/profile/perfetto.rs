//! A profile for Perfetto and Chrome's viewer, with what was found in it.
