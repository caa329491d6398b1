// Draws ResourceSlices, DeviceClasses and ResourceClaims, and asks kube-scheduler's own allocator whether the claims can have
// their devices on a node: the oracle of the search in crates/core/src/dra. One JSON object a line, the same for the same seed.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"

	core "k8s.io/api/core/v1"
	resource "k8s.io/api/resource/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

const (
	seed = 36
	all  = 1000
	node = "node-1"
)

type object = map[string]any

type draw struct{ *rand.Rand }

func (d draw) of(values ...any) any { return values[d.Intn(len(values))] }

// True in so many of ten cases.
func (d draw) often(tenths int) bool { return d.Intn(10) < tenths }

// A device, one of few kinds so that many are alike.
func (d draw) device(driver string, at int, counters bool) object {
	device := object{
		"name": fmt.Sprintf("d%d", at),
		"attributes": object{
			"model":                           object{"string": d.of("a100", "h100", "h100", "l4")},
			"index":                           object{"int": d.Intn(3)},
			"capability":                      object{"version": d.of("8.0.0", "8.9.0", "9.0.0")},
			"mig":                             object{"bool": d.often(2)},
			"resource.kubernetes.io/pcieRoot": object{"string": d.of("pci0", "pci1")},
		},
		"capacity": object{"memory": object{"value": d.of("40Gi", "81559Mi", "24Gi")}},
	}
	if d.often(2) {
		delete(device["attributes"].(object), "resource.kubernetes.io/pcieRoot")
	}
	if counters {
		device["consumesCounters"] = []object{{
			"counterSet": "set", "counters": object{"slots": object{"value": d.of("1", "2", "4")}},
		}}
	}
	if d.often(1) {
		device["taints"] = []object{{"key": "broken", "effect": d.of("NoSchedule", "NoExecute", "None")}}
	}
	return device
}

func (d draw) slices(driver string) []object {
	pool := object{"name": "pool-" + driver, "generation": 2, "resourceSliceCount": 1}
	counters := d.often(2)
	devices := []object{}
	for at := range 3 + d.Intn(7) {
		devices = append(devices, d.device(driver, at, counters))
	}
	slice := func(name string, spec object) object {
		spec["driver"] = driver
		if spec["pool"] == nil {
			spec["pool"] = pool
		}
		return object{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": object{"name": driver + "-" + name}, "spec": spec}
	}
	all := []object{slice("a", object{"nodeName": node, "devices": devices})}
	if counters {
		pool["resourceSliceCount"] = 2
		set := []object{{"name": "set", "counters": object{"slots": object{"value": d.of("3", "6", "8")}}}}
		all = append(all, slice("counters", object{"nodeName": node, "sharedCounters": set}))
	}
	switch d.Intn(20) {
	case 0:
		// A pool that is not complete.
		pool["resourceSliceCount"] = 5
	case 1:
		// A name twice.
		devices[len(devices)-1]["name"] = "d0"
	case 2:
		old := object{"name": pool["name"], "generation": 1, "resourceSliceCount": 1}
		stale := d.device(driver, 90, false)
		all = append(all, slice("old", object{"nodeName": node, "pool": old, "devices": []object{stale}}))
	case 3:
		other := object{"name": "other-" + driver, "generation": 1, "resourceSliceCount": 1}
		all = append(all, slice("other", object{"nodeName": "node-2", "pool": other, "devices": []object{d.device(driver, 0, false)}}))
	case 4:
		shared := object{"name": "shared-" + driver, "generation": 1, "resourceSliceCount": 1}
		all = append(all, slice("shared", object{"allNodes": true, "pool": shared, "devices": []object{d.device(driver, 0, false)}}))
	case 5:
		term := object{"matchExpressions": []object{{"key": "zone", "operator": "In", "values": []any{d.of("a", "b")}}}}
		zonal := object{"name": "zonal-" + driver, "generation": 1, "resourceSliceCount": 1}
		selector := object{"nodeSelectorTerms": []object{term}}
		all = append(all, slice("zonal", object{"nodeSelector": selector, "pool": zonal, "devices": []object{d.device(driver, 0, false)}}))
	}
	return all
}

func (d draw) selector() object {
	a := `device.attributes["gpu.example.com"]`
	text := d.of(
		a+`.model == "h100"`,
		a+`.model != "l4"`,
		a+`.model.startsWith("h") || `+a+`.model == "a100"`,
		a+`.index > 0`,
		a+`.index in [0, 2]`,
		`!`+a+`.mig`,
		a+`.capability.isGreaterThan(semver("8.5.0"))`,
		a+`.capability.compareTo(semver("8.9.0")) >= 0`,
		`device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("30Gi"))`,
		`device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) == 0`,
		`["a100", "l4"].exists(m, `+a+`.model == m)`,
		`cel.bind(g, `+a+`, g.index < 2 && !g.mig)`,
		`has(device.attributes["resource.kubernetes.io"].pcieRoot)`,
		`"resource.kubernetes.io" in device.attributes && device.attributes["resource.kubernetes.io"].pcieRoot == "pci0"`,
		`device.driver == "gpu.example.com" ? `+a+`.index == 1 : false`,
	)
	return object{"cel": object{"expression": text}}
}

func (d draw) exactly() object {
	exactly := object{"deviceClassName": d.of("gpu", "gpu", "gpu", "gpu", "big", "nic")}
	if d.Intn(80) == 0 {
		exactly["deviceClassName"] = "missing"
	}
	switch d.Intn(12) {
	case 0:
		exactly["allocationMode"] = "All"
	case 1, 2, 3:
		exactly["allocationMode"] = "ExactCount"
		exactly["count"] = 1 + d.Intn(3)
	default:
		exactly["allocationMode"] = "ExactCount"
		exactly["count"] = 1
	}
	if exactly["deviceClassName"] != "nic" && d.often(4) {
		exactly["selectors"] = []object{d.selector()}
	}
	return exactly
}

func (d draw) claim(at int) object {
	requests := []object{}
	for number := range 1 + d.Intn(2) {
		request := object{"name": fmt.Sprintf("r%d", number)}
		if d.often(2) {
			several := []object{}
			for alternative := range 2 {
				one := d.exactly()
				one["name"] = fmt.Sprintf("s%d", alternative)
				several = append(several, one)
			}
			request["firstAvailable"] = several
		} else {
			request["exactly"] = d.exactly()
		}
		requests = append(requests, request)
	}
	devices := object{"requests": requests}
	if d.often(3) {
		constraint := object{"matchAttribute": d.of("resource.kubernetes.io/pcieRoot", "gpu.example.com/model", "gpu.example.com/index")}
		if d.often(4) {
			constraint["requests"] = []any{d.of("r0", "r1", "r0/s1")}
		}
		devices["constraints"] = []object{constraint}
	}
	return object{
		"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
		"metadata": object{"name": fmt.Sprintf("c%d", at), "namespace": "default", "uid": fmt.Sprintf("u%d", at)},
		"spec":     object{"devices": devices},
	}
}

func class(name string, expressions ...string) object {
	selectors := []object{}
	for _, expression := range expressions {
		selectors = append(selectors, object{"cel": object{"expression": expression}})
	}
	return object{
		"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": object{"name": name}, "spec": object{"selectors": selectors},
	}
}

// The same in Kubernetes' types.
func typed[T any](objects []object) []*T {
	typed := []*T{}
	for _, one := range objects {
		text, err := json.Marshal(one)
		if err != nil {
			panic(err)
		}
		into := new(T)
		if err := json.Unmarshal(text, into); err != nil {
			panic(err)
		}
		typed = append(typed, into)
	}
	return typed
}

type classes map[string]*resource.DeviceClass

func (c classes) List() ([]*resource.DeviceClass, error) { return nil, nil }

func (c classes) Get(name string) (*resource.DeviceClass, error) {
	if known := c[name]; known != nil {
		return known, nil
	}
	return nil, fmt.Errorf("class %s is not there", name)
}

func main() {
	ctx := context.Background()
	d := draw{rand.New(rand.NewSource(seed))}
	cache := cel.NewCache(100, cel.Features{})
	written := []object{
		class("gpu", `device.driver == "gpu.example.com"`),
		class("big", `device.driver == "gpu.example.com"`, `device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0`),
		class("nic", `device.driver == "nic.example.com"`),
	}
	known := classes{}
	for _, one := range typed[resource.DeviceClass](written) {
		known[one.Name] = one
	}
	place := &core.Node{ObjectMeta: meta.ObjectMeta{Name: node, Labels: map[string]string{"zone": "a"}}}
	out := json.NewEncoder(os.Stdout)
	for range all {
		slices := d.slices("gpu.example.com")
		if d.often(7) {
			slices = append(slices, d.slices("nic.example.com")...)
		}
		claims := []object{}
		for at := range 1 + d.Intn(2) {
			claims = append(claims, d.claim(at))
		}
		taken, ids := []object{}, sets.New[structured.DeviceID]()
		for range d.Intn(3) {
			name := fmt.Sprintf("d%d", d.Intn(6))
			taken = append(taken, object{"driver": "gpu.example.com", "pool": "pool-gpu.example.com", "device": name})
			ids.Insert(structured.MakeDeviceID("gpu.example.com", "pool-gpu.example.com", name))
		}
		features := structured.Features{PrioritizedList: true, PartitionableDevices: true, DeviceTaints: true}
		state := structured.AllocatedState{AllocatedDevices: ids}
		allocator, err := structured.NewAllocator(ctx, features, state, known, typed[resource.ResourceSlice](slices), cache)
		if err != nil {
			panic(err)
		}
		results, err := allocator.Allocate(ctx, place, typed[resource.ResourceClaim](claims))
		answer := object{"slices": slices, "classes": written, "claims": claims, "taken": taken, "allocated": err == nil && results != nil}
		if err != nil {
			answer["error"] = err.Error()
		}
		if err := out.Encode(answer); err != nil {
			panic(err)
		}
	}
}
