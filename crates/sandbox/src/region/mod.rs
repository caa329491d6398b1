//! The embedded EC2 region, on the AWS wire protocols.
