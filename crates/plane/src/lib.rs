//! The data plane: batches, the five-stage port pipeline and its forwarders
