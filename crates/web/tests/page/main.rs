//! The page as readers meet it: its server, and what a browser makes of it.

mod browser;
mod build;
mod crowd;
mod guard;
mod looks;
mod rig;
