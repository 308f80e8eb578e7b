//! The IP router's control plane, as its data plane and its neighbours see it.

mod plane;
mod routes;
