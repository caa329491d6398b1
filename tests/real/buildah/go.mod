module dovetail.dev/tests/real/buildah

go 1.26
