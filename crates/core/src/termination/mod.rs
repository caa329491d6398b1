//! How a node goes: taint, drain in order, volumes, instance, finalizers (core spec 4, "Node deletion", and 5.9).
