//! Traffic generators and meters
