//! Every decision of Dovetail, pure: requirements, packing, batching, election, disruption.
