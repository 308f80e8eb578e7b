//! The kernel's routes, addresses and devices, as `ip` writes them and as a watcher reports them.
//! Each test has its own network namespace; without the rights to create one it is skipped, with a
//! message.

#[path = "../common/mod.rs"]
mod common;
mod interface;
mod inventory;
mod many;
mod net;
mod routes;
mod untold;
