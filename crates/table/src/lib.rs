//! Lookup structures of the packet path and their benches
