//! The plexus command
