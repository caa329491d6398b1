//! The ways to the API server and the cloud that all actors share.

mod calls;
mod claims;
mod context;
mod evictions;
