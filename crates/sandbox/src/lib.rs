//! A Kubernetes API server and an EC2 region in one process, on a clock that can be paused.
