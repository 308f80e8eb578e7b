//! A whole network on one machine, in network namespaces
