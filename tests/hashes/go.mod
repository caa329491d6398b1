module dovetail.dev/tests/hashes

go 1.26.11

require (
	github.com/aws/karpenter-provider-aws v1.15.2
	sigs.k8s.io/karpenter v1.15.0
)
