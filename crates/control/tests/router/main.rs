//! The IP router's control plane, as its data plane and its neighbours see it.

mod frames;
mod messages;
mod model;
mod neighbours;
mod plane;
mod routes;
