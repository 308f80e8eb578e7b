//! The topology file, generators and path algorithms
