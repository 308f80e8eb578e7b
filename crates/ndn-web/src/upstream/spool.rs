//! A body being received: in memory, or in an unnamed file if it is long.

use std::fs::File;
use std::io::{self, Write};

use plexus_ndn_apps::object::Body;

use crate::unnamed::unnamed;

/// Longer bodies are stored in files.
const MEMORY_MAX: usize = 1 << 20;

/// A body being received.
pub(super) enum Spool {
    Memory(Vec<u8>),
    File(File),
}

impl Spool {
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Spool::Memory(kept) = self
            && kept.len() + bytes.len() > MEMORY_MAX
        {
            let mut file = unnamed(&std::env::temp_dir())?;
            file.write_all(kept)?;
            *self = Spool::File(file);
        }
        match self {
            Spool::Memory(kept) => kept.extend_from_slice(bytes),
            Spool::File(file) => file.write_all(bytes)?,
        }
        Ok(())
    }

    pub(super) fn body(self) -> io::Result<Body> {
        match self {
            Spool::Memory(kept) => Ok(Body::Memory(kept)),
            Spool::File(file) => Body::file(file),
        }
    }
}
