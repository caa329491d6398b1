//! EC2NodeClass v1 (aws spec 1).

use serde_json::{Value, json};

use super::{
    parts::{self, object, rule, text, with},
    root,
};

/// Sizes of volumes: Gi to 59000, G to 64000, Ti to 58, T to 64.
const VOLUME_SIZE: &str = "^((?:[1-9][0-9]{0,3}|[1-4][0-9]{4}|5[0-8][0-9]{3}|59000)Gi|(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-3][0-9]{3}|64000)G|([1-9]|[1-4][0-9]|5[0-8])Ti|([1-9]|[1-5][0-9]|6[0-4])T)$";

/// The schema of the object.
pub fn schema() -> Value {
    let mut properties = shared();
    let more = json!({
        "capacityReservationSelectorTerms": reservation_terms(),
        "placementGroupSelector": placement_group(),
        "ipPrefixCount": {"type": "integer", "format": "int32", "minimum": 0},
        "amiSelectorTerms": ami_terms(),
        "amiFamily": {"type": "string", "enum": ["AL2", "AL2023", "Bottlerocket", "Custom", "Windows2019", "Windows2022", "Windows2025"]},
        "kubelet": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "networkInterfaces": network_interfaces(),
        "metadataOptions": metadata_options(1),
        "connectionTracking": connection_tracking(),
        "enclaveOptions": object(json!({"enabled": {"type": "boolean"}}), &["enabled"]),
        "cpuOptions": object(json!({"nestedVirtualization": {"type": "string", "enum": ["enabled", "disabled"]}}), &[]),
    });
    merge(&mut properties, more);
    let rules = json!({"x-kubernetes-validations": [
        rule("has(self.role) != has(self.instanceProfile)", "must specify exactly one of ['role', 'instanceProfile']"),
        rule(
            "has(self.amiFamily) || self.amiSelectorTerms.exists(x, has(x.alias))",
            "must specify amiFamily if amiSelectorTerms does not contain an alias",
        ),
        rule(
            "!has(self.amiFamily) || self.amiFamily == 'Custom' || self.amiSelectorTerms.all(x, !has(x.alias) || x.alias.find('^[^@]+') == self.amiFamily.lowerAscii())",
            "amiFamily must be the alias's family or Custom",
        ),
    ]});
    let required = ["amiSelectorTerms", "securityGroupSelectorTerms", "subnetSelectorTerms"];
    root("EC2NodeClass says how an instance is launched", with(object(properties, &required), rules), status())
}

/// Adds properties to properties.
pub fn merge(properties: &mut Value, more: Value) {
    if let (Some(properties), Value::Object(more)) = (properties.as_object_mut(), more) {
        properties.extend(more);
    }
}

/// Fields that v1beta1 and v1 have in common.
pub fn shared() -> Value {
    json!({
        "subnetSelectorTerms": terms(json!({"id": text("^subnet-[0-9a-z]+$")}), false),
        "securityGroupSelectorTerms": terms(json!({"id": text("^sg-[0-9a-z]+$"), "name": {"type": "string", "maxLength": 255}}), true),
        "associatePublicIPAddress": {"type": "boolean"},
        "userData": {"type": "string"},
        "role": iam_name(64),
        "instanceProfile": iam_name(128),
        "tags": tags(),
        "blockDeviceMappings": block_devices(),
        "instanceStorePolicy": {"type": "string", "enum": ["RAID0"]},
        "detailedMonitoring": {"type": "boolean"},
        "context": {"type": "string"},
    })
}

/// The name of a role or instance profile with so many characters at most, as IAM has them; a path may stand before it.
pub fn iam_name(most: u32) -> Value {
    json!({"type": "string", "minLength": 1, "pattern": format!("^([!-~]*/)?[A-Za-z0-9_+=,.@-]{{1,{most}}}$")})
}

/// Tags that a selector asks for.
pub fn selector_tags() -> Value {
    json!({
        "type": "object",
        "maxProperties": 20,
        "additionalProperties": {"type": "string"},
        "x-kubernetes-validations": [rule("self.all(k, k != '' && self[k] != '')", "empty tag keys or values aren't supported")],
    })
}

fn terms(properties: Value, name: bool) -> Value {
    let mut rules = vec![];
    if name {
        rules.push(rule(
            "has(self.tags) || has(self.id) || has(self.name)",
            "expected at least one of ['tags', 'id', 'name']",
        ));
        rules.push(rule("!has(self.id) || (!has(self.tags) && !has(self.name))", "'id' excludes all other fields"));
        rules.push(rule("!has(self.name) || (!has(self.tags) && !has(self.id))", "'name' excludes all other fields"));
    } else {
        rules.push(rule("has(self.tags) || has(self.id)", "expected at least one of ['tags', 'id']"));
        rules.push(rule("!has(self.id) || !has(self.tags)", "'id' excludes 'tags'"));
    }
    let mut all = json!({"tags": selector_tags()});
    merge(&mut all, properties);
    let item = with(object(all, &[]), json!({"x-kubernetes-validations": rules}));
    json!({"type": "array", "items": item, "minItems": 1, "maxItems": 30})
}

fn reservation_terms() -> Value {
    let item = object(
        json!({
            "tags": selector_tags(),
            "id": text("^cr-[0-9a-z]+$"),
            "ownerID": text("^[0-9]{12}$"),
            "instanceMatchCriteria": {"type": "string", "enum": ["open", "targeted"]},
        }),
        &[],
    );
    let rules = json!({"x-kubernetes-validations": [
        rule(
            "has(self.tags) || has(self.id) || has(self.instanceMatchCriteria)",
            "expected at least one of ['tags', 'id', 'instanceMatchCriteria']",
        ),
        rule(
            "!has(self.id) || (!has(self.tags) && !has(self.ownerID) && !has(self.instanceMatchCriteria))",
            "'id' excludes all other fields",
        ),
    ]});
    json!({"type": "array", "items": with(item, rules), "maxItems": 30})
}

fn placement_group() -> Value {
    with(
        object(json!({"name": {"type": "string", "minLength": 1}, "id": text("^pg-[0-9a-z]+$")}), &[]),
        json!({"x-kubernetes-validations": [rule("has(self.name) != has(self.id)", "expected exactly one of ['name', 'id']")]}),
    )
}

fn ami_terms() -> Value {
    let item = object(
        json!({
            "alias": {
                "type": "string",
                "maxLength": 30,
                "x-kubernetes-validations": [
                    rule("self.matches('^[a-zA-Z0-9]+@.+$')", "'alias' has the form 'family@version'"),
                    rule(
                        "self.find('^[^@]+') in ['al2', 'al2023', 'bottlerocket', 'windows2019', 'windows2022', 'windows2025']",
                        "family is not supported, it must be one of 'al2', 'al2023', 'bottlerocket', 'windows2019', 'windows2022', 'windows2025'",
                    ),
                    rule("!self.startsWith('windows') || self.endsWith('@latest')", "windows families have no version but 'latest'"),
                ],
            },
            "tags": selector_tags(),
            "id": text("^ami-[0-9a-z]+$"),
            "name": {"type": "string", "maxLength": 255},
            "owner": {"type": "string", "maxLength": 255},
            "ssmParameter": {"type": "string", "maxLength": 2048},
        }),
        &[],
    );
    let rules = json!({"x-kubernetes-validations": [
        rule(
            "has(self.tags) || has(self.id) || has(self.name) || has(self.alias) || has(self.ssmParameter)",
            "expected at least one of ['tags', 'id', 'name', 'alias', 'ssmParameter']",
        ),
        rule(
            "!has(self.id) || (!has(self.alias) && !has(self.tags) && !has(self.name) && !has(self.owner))",
            "'id' excludes 'alias', 'tags', 'name' and 'owner'",
        ),
        rule(
            "!has(self.alias) || (!has(self.id) && !has(self.tags) && !has(self.name) && !has(self.owner))",
            "'alias' excludes 'id', 'tags', 'name' and 'owner'",
        ),
    ]});
    let list = json!({"x-kubernetes-validations": [
        rule("self.size() == 1 || !self.exists(x, has(x.alias))", "'alias' excludes every other term"),
    ]});
    with(json!({"type": "array", "items": with(item, rules), "minItems": 1, "maxItems": 30}), list)
}

fn tags() -> Value {
    let own =
        ["karpenter.sh/nodepool", "karpenter.sh/nodeclaim", "karpenter.k8s.aws/ec2nodeclass", "eks:eks-cluster-name"];
    let mut rules = vec![
        rule("self.all(k, k != '')", "empty tag keys aren't supported"),
        rule(
            "self.all(k, !k.startsWith('kubernetes.io/cluster'))",
            "tag keys may not begin with \"kubernetes.io/cluster\"",
        ),
    ];
    rules.extend(own.iter().map(|key| rule(&format!("!('{key}' in self)"), &format!("tag {key:?} is restricted"))));
    // EC2 takes 50 tags at most, so the bound takes nothing away; without one the rules have no bounded cost.
    json!({"type": "object", "maxProperties": 50, "additionalProperties": {"type": "string"}, "x-kubernetes-validations": rules})
}

fn block_devices() -> Value {
    let ebs = object(
        json!({
            "deleteOnTermination": {"type": "boolean"},
            "encrypted": {"type": "boolean"},
            "iops": {"type": "integer", "format": "int64"},
            "kmsKeyID": {"type": "string"},
            "snapshotID": {"type": "string"},
            "throughput": {"type": "integer", "format": "int64"},
            "volumeInitializationRate": {"type": "integer", "format": "int32", "minimum": 100, "maximum": 300},
            "volumeSize": {
                "anyOf": [{"type": "integer"}, {"type": "string"}],
                "pattern": VOLUME_SIZE,
                "x-kubernetes-int-or-string": true,
            },
            "volumeType": {"type": "string", "enum": ["standard", "io1", "io2", "gp2", "sc1", "st1", "gp3"]},
        }),
        &[],
    );
    let ebs = with(
        ebs,
        json!({"x-kubernetes-validations": [
            rule("has(self.snapshotID) || has(self.volumeSize)", "snapshotID or volumeSize must be defined"),
            rule("!has(self.volumeInitializationRate) || has(self.snapshotID)", "snapshotID must be set with volumeInitializationRate"),
        ]}),
    );
    let item = object(json!({"deviceName": {"type": "string"}, "rootVolume": {"type": "boolean"}, "ebs": ebs}), &[]);
    json!({
        "type": "array",
        "maxItems": 50,
        "items": item,
        "x-kubernetes-validations": [
            rule("self.filter(x, has(x.rootVolume) && x.rootVolume).size() <= 1", "only one blockDeviceMapping can have rootVolume"),
        ],
    })
}

fn network_interfaces() -> Value {
    let item = object(
        json!({
            "networkCardIndex": {"type": "integer", "format": "int32", "minimum": 0},
            "deviceIndex": {"type": "integer", "format": "int32", "minimum": 0},
            "interfaceType": {"type": "string", "enum": ["interface", "efa-only"]},
        }),
        &["deviceIndex", "interfaceType", "networkCardIndex"],
    );
    let same = "x.networkCardIndex == y.networkCardIndex";
    json!({
        "type": "array",
        "maxItems": 150,
        "items": item,
        "x-kubernetes-validations": [
            rule(
                "self.size() == 0 || self.exists(x, x.networkCardIndex == 0 && x.deviceIndex == 0 && x.interfaceType == 'interface')",
                "must include card 0, device 0 of type 'interface'",
            ),
            rule(&format!("self.all(x, self.exists_one(y, {same} && x.deviceIndex == y.deviceIndex))"), "card and device must be unique"),
            rule(
                &format!("self.all(x, x.interfaceType != 'efa-only' || self.filter(y, {same} && y.interfaceType == 'efa-only').size() == 1)"),
                "only one 'efa-only' interface is allowed on a card",
            ),
        ],
    })
}

/// Metadata options with that default of the hop limit.
pub fn metadata_options(hops: i64) -> Value {
    let able = |default: &str| json!({"type": "string", "enum": ["enabled", "disabled"], "default": default});
    let schema = object(
        json!({
            "httpEndpoint": able("enabled"),
            "httpProtocolIPv6": able("disabled"),
            "httpPutResponseHopLimit": {"type": "integer", "format": "int64", "minimum": 1, "maximum": 64, "default": hops},
            "httpTokens": {"type": "string", "enum": ["required", "optional"], "default": "required"},
        }),
        &[],
    );
    let default = json!({"httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": hops, "httpTokens": "required"});
    with(schema, json!({"default": default}))
}

fn connection_tracking() -> Value {
    let seconds = |from: i64, to: i64| json!({"type": "integer", "format": "int32", "minimum": from, "maximum": to});
    with(
        object(
            json!({
                "tcpEstablishedTimeout": seconds(60, 432_000),
                "udpStreamTimeout": seconds(60, 180),
                "udpTimeout": seconds(30, 60),
            }),
            &[],
        ),
        json!({"x-kubernetes-validations": [rule(
            "has(self.tcpEstablishedTimeout) || has(self.udpStreamTimeout) || has(self.udpTimeout)",
            "at least one time-out must be set",
        )]}),
    )
}

/// Schema of the status: what the class has resolved to, and its conditions.
pub fn status() -> Value {
    let requirement = object(
        json!({
            "key": {"type": "string"},
            "operator": {"type": "string"},
            "values": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"},
        }),
        &["key", "operator"],
    );
    let list = |item: Value| json!({"type": "array", "items": item});
    let string = json!({"type": "string"});
    object(
        json!({
            "subnets": list(object(json!({"id": string, "zone": string, "zoneID": string}), &["id", "zone"])),
            "securityGroups": list(object(json!({"id": string, "name": string}), &["id"])),
            "amis": list(object(
                json!({"id": string, "name": string, "deprecated": {"type": "boolean"}, "requirements": list(requirement)}),
                &["id", "requirements"],
            )),
            "instanceProfile": string,
            "capacityReservations": list(reservation()),
            "placementGroup": group(),
            "conditions": parts::conditions(true),
        }),
        &[],
    )
}

fn group() -> Value {
    object(
        json!({
            "id": {"type": "string"},
            "name": {"type": "string"},
            "strategy": {"type": "string", "enum": ["cluster", "partition", "spread"]},
            "partitionCount": {"type": "integer", "format": "int32", "minimum": 1},
            "zone": {"type": "string"},
        }),
        &["id", "name", "strategy"],
    )
}

fn reservation() -> Value {
    object(
        json!({
            "availabilityZone": {"type": "string"},
            "endTime": parts::time(),
            "id": text("^cr-[0-9a-z]+$"),
            "instanceMatchCriteria": {"type": "string", "enum": ["open", "targeted"]},
            "instanceType": {"type": "string"},
            "ownerID": text("^[0-9]{12}$"),
            "reservationType": {"type": "string", "enum": ["default", "capacity-block"], "default": "default"},
            "interruptible": {"type": "boolean"},
            "state": {"type": "string", "enum": ["active", "expiring"], "default": "active"},
        }),
        &["availabilityZone", "id", "instanceMatchCriteria", "instanceType", "ownerID"],
    )
}
