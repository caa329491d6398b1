//! The Kubernetes API server.
