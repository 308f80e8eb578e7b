//! One fuzz target per decoder.
