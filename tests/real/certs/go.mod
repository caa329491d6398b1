// The authority and the certificates of a cluster for tests. It needs nothing but Go's own library.
module dovetail/tests/real/certs

go 1.26.0
