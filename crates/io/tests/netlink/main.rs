//! The kernel's routes, addresses and devices, as `ip` writes them and as a watcher tells them.
//! Each test has a network namespace of its own; without the rights to make one it is skipped,
//! aloud.

mod interface;
mod many;
mod net;
mod routes;
mod untold;
