//! The five stages, one file each.

pub(crate) mod arbiter;
pub(crate) mod lookup;
pub(crate) mod output;
pub(crate) mod receive;
pub(crate) mod transmit;
