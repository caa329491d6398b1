// Draws NodePools and EC2NodeClasses, and prints each with the hash that Karpenter gives it: the oracle of the hashes in
// crates/core/src/lifecycle/hash. One JSON object a line, the same for the same seed.
package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"strconv"

	class "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	pool "sigs.k8s.io/karpenter/pkg/apis/v1"
)

const (
	seed  = 15
	pools = 250
	all   = 550
)

type object = map[string]any

type draw struct{ *rand.Rand }

func (d draw) of(values ...any) any { return values[d.Intn(len(values))] }

// Sets a field, more often than not.
func (d draw) maybe(in object, field string, value func() any) {
	if d.Intn(5) < 3 {
		in[field] = value()
	}
}

// Sets a field to one of some values, more often than not.
func (d draw) any(in object, field string, values ...any) {
	d.maybe(in, field, func() any { return d.of(values...) })
}

// A map with up to three entries, now and then an empty one.
func (d draw) words(keys ...string) any {
	words := object{}
	for range d.Intn(4) {
		words[keys[d.Intn(len(keys))]] = d.of("", "a", "b", "größer <&>", "true", "17")
	}
	return words
}

// A list with up to three items, now and then an empty one, or with an item twice.
func (d draw) list(item func() any) any {
	items := []any{}
	for range d.Intn(4) {
		items = append(items, item())
	}
	return items
}

func (d draw) taint() any {
	taint := object{"key": d.of("a", "example.com/b", "c"), "effect": d.of("NoSchedule", "NoExecute", "PreferNoSchedule")}
	d.any(taint, "value", "", "x", "y")
	if d.Intn(6) == 0 {
		taint["timeAdded"] = d.of("2026-03-02T10:17:00Z", "2019-01-01T00:00:59Z")
	}
	return taint
}

func (d draw) nodePool() object {
	spec := object{
		"requirements": []any{},
		"nodeClassRef": object{"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": d.of("default", "gpu")},
	}
	d.maybe(spec, "taints", func() any { return d.list(d.taint) })
	d.maybe(spec, "startupTaints", func() any { return d.list(d.taint) })
	d.any(spec, "terminationGracePeriod", "0s", "30s", "1h", "1h30m", "48h")
	d.any(spec, "expireAfter", "Never", "0s", "720h", "43200m", "36h15m30s")
	template := object{"spec": spec}
	d.maybe(template, "metadata", func() any {
		metadata := object{}
		d.maybe(metadata, "labels", func() any { return d.words("team", "example.com/tier", "karpenter.sh/x") })
		d.maybe(metadata, "annotations", func() any { return d.words("note", "example.com/owner") })
		return metadata
	})
	return template
}

func (d draw) disk() any {
	disk := object{}
	d.any(disk, "deviceName", "/dev/xvda", "/dev/xvdb", "")
	d.any(disk, "rootVolume", true, false)
	d.maybe(disk, "ebs", func() any {
		volume := object{}
		d.any(volume, "deleteOnTermination", true, false)
		d.any(volume, "encrypted", true, false)
		d.any(volume, "iops", 0, 3000, 64000)
		d.any(volume, "kmsKeyID", "1234abcd-12ab-34cd-56ef-1234567890ab", "alias/disks")
		d.any(volume, "snapshotID", "snap-0123456789", "")
		d.any(volume, "throughput", 125, 1000)
		d.any(volume, "volumeInitializationRate", 100, 300)
		d.any(volume, "volumeSize", "1Gi", "20Gi", "100Gi", "1023Gi", "1024Gi", "2048Gi", "1G", "1000G", "1500G", "64000G",
			"1Ti", "58Ti", "1T", "64T")
		d.any(volume, "volumeType", "gp3", "io2", "standard")
		return volume
	})
	return disk
}

func (d draw) kubelet() any {
	kubelet := object{}
	d.any(kubelet, "maxPods", 0, 40, "enis * 10 < 110 ? enis * 10 : 110")
	d.any(kubelet, "podsPerCore", 0, 2)
	d.any(kubelet, "cpuCFSQuota", true, false)
	d.any(kubelet, "memoryThrottlingFactor", 0.9, 1.25)
	d.maybe(kubelet, "clusterDNS", func() any { return d.list(func() any { return d.of("10.0.0.10", "10.0.0.11") }) })
	d.maybe(kubelet, "systemReserved", func() any { return object{"memory": "100Mi", "cpu": d.of("1", "1000m")} })
	d.maybe(kubelet, "evictionHard", func() any { return object{"memory.available": "5%", "nodefs.available": "10%"} })
	d.maybe(kubelet, "logging", func() any { return object{"verbosity": 2, "format": d.of("json", "a & b\t\"c\" \u2028")} })
	return kubelet
}

func (d draw) nodeClass() object {
	spec := object{
		"subnetSelectorTerms":        []any{object{"id": "subnet-1"}},
		"securityGroupSelectorTerms": []any{object{"id": "sg-1"}},
		"metadataOptions": object{
			"httpEndpoint": d.of("enabled", "disabled"), "httpProtocolIPv6": d.of("disabled", "enabled"),
			"httpPutResponseHopLimit": d.of(1, 2, 64), "httpTokens": d.of("required", "optional"),
		},
	}
	if d.Intn(2) == 0 {
		spec["amiSelectorTerms"] = []any{object{"alias": d.of("al2@latest", "al2023@v20260101", "bottlerocket@latest", "windows2025@latest")}}
	} else {
		spec["amiSelectorTerms"] = []any{object{"id": "ami-1"}}
		d.any(spec, "amiFamily", "AL2", "AL2023", "Bottlerocket", "Custom", "Windows2022")
	}
	d.maybe(spec, "capacityReservationSelectorTerms", func() any { return []any{object{"id": "cr-1"}} })
	d.maybe(spec, "placementGroupSelector", func() any {
		return d.of(object{"name": "group"}, object{"id": "pg-1"})
	})
	d.any(spec, "associatePublicIPAddress", true, false)
	d.any(spec, "ipPrefixCount", 0, 2)
	d.any(spec, "userData", "", "#!/bin/bash\necho <größer> & so\n")
	d.any(spec, "role", "KarpenterNodeRole-demo", "other")
	d.any(spec, "instanceProfile", "profile")
	d.maybe(spec, "tags", func() any { return d.words("team", "Name", "cost-centre") })
	d.maybe(spec, "kubelet", d.kubelet)
	d.maybe(spec, "blockDeviceMappings", func() any { return d.list(d.disk) })
	d.any(spec, "instanceStorePolicy", "RAID0")
	d.maybe(spec, "networkInterfaces", func() any {
		return d.list(func() any {
			return object{"networkCardIndex": d.of(0, 1), "deviceIndex": d.of(0, 1), "interfaceType": d.of("interface", "efa-only")}
		})
	})
	d.any(spec, "detailedMonitoring", true, false)
	d.maybe(spec, "enclaveOptions", func() any { return object{"enabled": d.of(true, false)} })
	d.maybe(spec, "connectionTracking", func() any {
		tracking := object{"udpTimeout": d.of(30, 60)}
		d.any(tracking, "tcpEstablishedTimeout", 60, 432000)
		d.any(tracking, "udpStreamTimeout", 60, 180)
		return tracking
	})
	d.any(spec, "context", "", "context")
	d.maybe(spec, "cpuOptions", func() any { return d.of(object{}, object{"nestedVirtualization": "enabled"}) })
	return spec
}

// The object as an API server sends it: keys sorted.
func as[T any](drawn object, into *T) json.RawMessage {
	text, err := json.Marshal(drawn)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return text
}

func main() {
	d := draw{rand.New(rand.NewSource(seed))}
	out := json.NewEncoder(os.Stdout)
	for at := range all {
		if at < pools {
			of := pool.NodePool{}
			template := as(d.nodePool(), &of.Spec.Template)
			_ = out.Encode(object{"version": pool.NodePoolHashVersion, "template": template, "hash": of.Hash()})
			continue
		}
		of := class.EC2NodeClass{}
		spec, authority := as(d.nodeClass(), &of.Spec), d.of("", "LS0t"+strconv.Itoa(d.Intn(9))).(string)
		hash := of.Hash(&authority)
		_ = out.Encode(object{"version": class.EC2NodeClassHashVersion, "class": spec, "authority": authority, "hash": hash})
	}
}
