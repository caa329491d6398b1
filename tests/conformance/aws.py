"""Cases of AWS, asked of moto and of the sandbox's region: the calls that the binary makes, how they page, and how they are refused."""

import http.client
import json

import urllib.parse
import uuid
import xml.etree.ElementTree as xml


from sides import CLUSTER, REGION

VERSIONS = {"ec2": "2016-11-15", "iam": "2010-05-08", "sts": "2011-06-15"}
TARGETS = {"sqs": ("AmazonSQS", "1.0"), "ssm": ("AmazonSSM", "1.1"), "pricing": ("AWSPriceListService", "1.1")}
FOUND = [{"Name": "tag:karpenter.sh/discovery", "Value": [CLUSTER]}]
ROLE = f"KarpenterNodeRole-{CLUSTER}"


class Said:
    """An answer of AWS: its status, the code of a refusal, and its members by path."""

    def __init__(self, status, kind, text, refused=""):
        self.status, self.text, self.members = status, text, {}
        if "json" in kind:
            body = json.loads(text) if text else {}
            self.add_json(body, "")
            self.code = (refused or body.get("__type") or "").split("#")[-1].split(":")[0] if status >= 400 else None
        else:
            tree = xml.fromstring(text) if text.startswith("<") and "html" not in text[:20].lower() else xml.Element("none")
            for child in tree:
                self.add_xml(child, "")
            code = next((one for one in tree.iter() if one.tag.endswith("Code")), None)
            self.code = code.text if status >= 400 and code is not None else None

    def add_xml(self, element, path):
        name = element.tag.split("}")[-1]
        path = f"{path}[]" if name in ("item", "member") else f"{path}.{name}".lstrip(".")
        if not len(element):
            self.members.setdefault(path, []).append((element.text or "").strip())
        for child in element:
            self.add_xml(child, path)

    def add_json(self, value, path):
        if isinstance(value, dict):
            for name, one in value.items():
                self.add_json(one, f"{path}.{name}".lstrip("."))
        elif isinstance(value, list):
            for one in value:
                self.add_json(one, f"{path}[]")
        else:
            self.members.setdefault(path, []).append(value)

    def all(self, ending):
        """The values at paths that end so."""
        return [value for path, values in self.members.items() if ("." + path).endswith("." + ending) for value in values]

    def one(self, ending):
        """The first of them."""
        return (self.all(ending) or [None])[0]


def flattened(value, path=""):
    """Parameters as EC2's and IAM's protocols write them."""
    if isinstance(value, dict):
        return {at: one for key, inner in value.items() for at, one in flattened(inner, f"{path}.{key}".lstrip(".")).items()}
    if isinstance(value, list):
        return {at: one for number, inner in enumerate(value, 1) for at, one in flattened(inner, f"{path}.{number}").items()}
    return {path: "true" if value is True else "false" if value is False else str(value)}


def call(it, service, action, **given):
    """One call of an action."""
    address = urllib.parse.urlsplit(it.side.aws).netloc
    headers = {"authorization": f"AWS4-HMAC-SHA256 Credential=conformance/20260101/{REGION}/{service}/aws4_request, SignedHeaders=host, Signature=0",
               "x-amz-date": "20260101T000000Z"}
    method, path, body = "POST", "/", ""
    if service in TARGETS:
        target, version = TARGETS[service]
        headers |= {"x-amz-target": f"{target}.{action}", "content-type": f"application/x-amz-json-{version}"}
        body = json.dumps(given)
    elif service == "eks" and action == "CreateCluster":
        path, body, headers["content-type"] = "/clusters", json.dumps(given), "application/json"
    elif service == "eks":
        method, path = "GET", f"/clusters/{given['name']}"
    else:
        headers["content-type"] = "application/x-www-form-urlencoded"
        body = urllib.parse.urlencode({"Action": action, "Version": VERSIONS[service], **flattened(given)})
    if action != "CreateCluster":
        it.side.asked_aws.append({"method": method, "target": path, "headers": headers, "body": body.encode(), "service": [service]})
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    said = Said(answer.status, answer.getheader("content-type") or "", answer.read().decode(), answer.getheader("x-amzn-errortype") or "")
    connection.close()
    return said


def ask(it, label, service, action, tell=(), have=(), code=None, **given):
    """A call, and what both have to say alike: the status, a refusal's code, values at `tell`, whether there is something at `have`."""
    said = call(it, service, action, **given)
    told = {"status": said.status, "code": said.code}
    if said.status < 300:
        told |= {path: sorted(map(str, said.all(path))) for path in tell}
        told |= {f"{path} is there": all(map(lambda one: one not in ("", None), said.all(path))) and bool(said.all(path)) for path in have}
    it.tell(label, told)
    if code is not None and it.side.name == "sandbox":
        it.must(said.code == code, f"{label}: AWS refuses with {code}, not {said.code}: {said.text[:300]}")
    elif code is None and it.side.name == "sandbox":
        it.must(said.status < 300, f"{label}: {said.status} {said.text[:300]}")
    return said


def subnets(it):
    """A subnet a zone, by its tag."""
    said = call(it, "ec2", "DescribeSubnets", Filter=FOUND)
    return dict(zip(said.all("availabilityZone"), said.all("subnetId")))


def image(it):
    """An image for x86_64: moto knows none by EKS's parameters."""
    if it.side.name == "sandbox":
        name = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/recommended/image_id"
        return call(it, "ssm", "GetParameter", Name=name).one("Parameter.Value")
    return call(it, "ec2", "DescribeImages", Filter=FOUND).one("imageId")


def tags(kind, **more):
    """A tag specification."""
    given = {"karpenter.sh/nodepool": "default", "eks:eks-cluster-name": CLUSTER, **more}
    return [{"ResourceType": kind, "Tag": [{"Key": key, "Value": value} for key, value in given.items()]}]


def template(it, name, **more):
    """Parameters of a launch template as the binary makes it."""
    group, profile = call(it, "ec2", "DescribeSecurityGroups", Filter=FOUND).one("groupId"), name.replace("/", "_")
    call(it, "iam", "CreateInstanceProfile", InstanceProfileName=profile)
    call(it, "iam", "AddRoleToInstanceProfile", InstanceProfileName=profile, RoleName=ROLE)
    return {
        "ClientToken": str(uuid.uuid4()), "LaunchTemplateName": name, "TagSpecification": tags("launch-template"),
        "LaunchTemplateData": {
            "ImageId": image(it), "UserData": "dGVzdA==", "Monitoring": {"Enabled": False}, "NetworkInterface": [
                {"DeviceIndex": 0, "SecurityGroupId": [group]}],
            "BlockDeviceMapping": [{"DeviceName": "/dev/xvda", "Ebs": {"Encrypted": True, "DeleteOnTermination": True, "VolumeSize": 20, "VolumeType": "gp3"}}],
            "IamInstanceProfile": {"Name": profile}, "TagSpecification": tags("volume"),
            "CapacityReservationSpecification": {"CapacityReservationPreference": "none"},
            "MetadataOptions": {"HttpEndpoint": "enabled", "HttpTokens": "required", "HttpPutResponseHopLimit": 1,
                                "HttpProtocolIpv6": "disabled", "InstanceMetadataTags": "disabled"},
        }, **more}


def fleet(it, name, token, count=1, types=("m5.large", "c5.large"), **more):
    """Parameters of a fleet as the binary asks for it."""
    overrides = [{"InstanceType": kind, "SubnetId": subnet, "AvailabilityZone": zone, "ImageId": image(it), "Priority": 0.1}
                 for kind in types for zone, subnet in sorted(subnets(it).items())]
    return {
        "ClientToken": token, "Type": "instant", "OnDemandOptions": {"AllocationStrategy": "lowest-price"},
        "LaunchTemplateConfigs": [{"LaunchTemplateSpecification": {"LaunchTemplateName": name, "Version": "$Latest"}, "Overrides": overrides}],
        "TargetCapacitySpecification": {"TotalTargetCapacity": count, "DefaultTargetCapacityType": "on-demand"},
        "TagSpecification": tags("instance", case=token), **more}


def the_catalogue_is_read_in_pages(it):
    filters = [{"Name": "supported-virtualization-type", "Value": ["hvm"]}, {"Name": "processor-info.supported-architecture", "Value": ["x86_64", "arm64"]}]
    first = ask(it, "types", "ec2", "DescribeInstanceTypes", have=("instanceType", "defaultVCpus", "memoryInfo.sizeInMiB", "nextToken"), Filter=filters, MaxResults=100)
    more = {"NextToken": first.one("nextToken")} if first.one("nextToken") else {}
    second = ask(it, "types, next", "ec2", "DescribeInstanceTypes", have=("instanceType",), Filter=filters, MaxResults=100, **more)
    if it.side.name == "sandbox":
        it.must(not set(first.all("instanceType")) & set(second.all("instanceType")) and len(first.all("instanceType")) == 100, "pages do not overlap")
    ask(it, "a type", "ec2", "DescribeInstanceTypes", InstanceType=["m5.large"], tell=(
        "instanceType", "defaultVCpus", "memoryInfo.sizeInMiB", "bareMetal", "hypervisor", "supportedArchitectures[]", "supportedUsageClasses[]",
        "maximumNetworkInterfaces", "ipv4AddressesPerInterface", "manufacturer", "encryptionInTransitSupported"))
    ask(it, "an unknown type", "ec2", "DescribeInstanceTypes", InstanceType=["m5.enormous"], code="InvalidInstanceType")
    ask(it, "a dry run", "ec2", "DescribeInstanceTypes", DryRun=True, Filter=[{"Name": "instance-type", "Value": ["m5.large"]}], code="DryRunOperation")
    offers = ask(it, "offerings", "ec2", "DescribeInstanceTypeOfferings", have=("instanceType", "location"), LocationType="availability-zone", MaxResults=1000)
    it.must(set(offers.all("location")) <= set(subnets(it)), offers.all("location")[:3])
    ask(it, "spot prices", "ec2", "DescribeSpotPriceHistory", have=("instanceType", "spotPrice", "timestamp", "availabilityZone"),
        StartTime="2026-01-01T00:00:00Z", ProductDescription=["Linux/UNIX", "Linux/UNIX (Amazon VPC)"], MaxResults=1000)
    fields = {"regionCode": REGION, "serviceCode": "AmazonEC2", "preInstalledSw": "NA", "operatingSystem": "Linux", "capacitystatus": "Used",
              "marketoption": "OnDemand", "tenancy": "Shared", "productFamily": "Compute Instance"}
    ask(it, "prices", "pricing", "GetProducts", have=("PriceList[]",), ServiceCode="AmazonEC2", MaxResults=100,
        Filters=[{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in fields.items()])
    ask(it, "zones", "ec2", "DescribeAvailabilityZones", tell=("zoneName", "zoneState", "zoneId"))


def the_network_and_images_are_found(it):
    ask(it, "subnets", "ec2", "DescribeSubnets", Filter=FOUND, tell=("availabilityZone", "availabilityZoneId", "state"), have=("subnetId", "availableIpAddressCount", "vpcId"))
    ask(it, "no subnets", "ec2", "DescribeSubnets", Filter=[{"Name": "tag:karpenter.sh/discovery", "Value": ["none"]}], tell=("subnetId",))
    ask(it, "an unknown subnet", "ec2", "DescribeSubnets", SubnetId=["subnet-0123456789abcdef0"], code="InvalidSubnetID.NotFound")
    ask(it, "groups", "ec2", "DescribeSecurityGroups", Filter=FOUND, have=("groupId", "groupName", "vpcId"))
    ask(it, "an unknown group", "ec2", "DescribeSecurityGroups", GroupId=["sg-0123456789abcdef0"], code="InvalidGroup.NotFound")
    ask(it, "an unknown filter", "ec2", "DescribeSubnets", Filter=[{"Name": "colour", "Value": ["red"]}], code="InvalidParameterValue")
    mine = image(it)
    ask(it, "an image", "ec2", "DescribeImages", ImageId=[mine], tell=("architecture", "imageState", "imageType"), have=("imageId", "name", "creationDate"))
    ask(it, "an unknown image", "ec2", "DescribeImages", ImageId=["ami-0123456789abcdef0"], code="InvalidAMIID.NotFound")
    ask(it, "no image", "ec2", "DescribeImages", ImageId=["ami-x"], code="InvalidAMIID.Malformed")
    ask(it, "images by filter", "ec2", "DescribeImages", IncludeDeprecated=True, MaxResults=1000, Filter=[
        {"Name": "image-id", "Value": [mine]}, {"Name": "state", "Value": ["available"]}], tell=("imageState",))
    ask(it, "an unknown parameter", "ssm", "GetParameter", Name="/aws/service/none", code="ParameterNotFound")
    if it.side.name == "real":
        # The sandbox's is there.
        vpc = {"subnetIds": sorted(subnets(it).values())}
        call(it, "eks", "CreateCluster", name=CLUSTER, version="1.33", roleArn="arn:aws:iam::123456789012:role/cluster", resourcesVpcConfig=vpc)
    ask(it, "the cluster", "eks", "DescribeCluster", name=CLUSTER, tell=("cluster.name", "cluster.status"), have=(
        "cluster.version", "cluster.endpoint", "cluster.certificateAuthority.data", "cluster.kubernetesNetworkConfig.serviceIpv4Cidr", "cluster.arn"))
    ask(it, "an unknown cluster", "eks", "DescribeCluster", name="none", code="ResourceNotFoundException")
    ask(it, "no action", "ec2", "DescribeNothing", code="InvalidAction")
    ask(it, "whoever asks", "sts", "GetCallerIdentity", have=("Account", "Arn"))


def a_launch_template_is_made_once(it):
    name = "conformance/template"
    ask(it, "none", "ec2", "DescribeLaunchTemplates", LaunchTemplateName=[name], code="InvalidLaunchTemplateName.NotFoundException")
    given = template(it, name)
    made = ask(it, "made", "ec2", "CreateLaunchTemplate", tell=("launchTemplateName", "defaultVersionNumber", "latestVersionNumber"), have=("launchTemplateId", "createTime"), **given)
    again = ask(it, "by its token again", "ec2", "CreateLaunchTemplate", **given)
    it.must(it.side.name == "real" or again.one("launchTemplateId") == made.one("launchTemplateId"), "the token is heeded")
    ask(it, "by another token", "ec2", "CreateLaunchTemplate", **template(it, name), code="InvalidLaunchTemplateName.AlreadyExistsException")
    by_tag = [{"Name": "tag:eks:eks-cluster-name", "Value": [CLUSTER]}, {"Name": "tag-key", "Value": ["karpenter.sh/nodepool"]}, {"Name": "launch-template-name", "Value": [name]}]
    ask(it, "by its tag", "ec2", "DescribeLaunchTemplates", Filter=by_tag[:1] + by_tag[2:], MaxResults=200, tell=("launchTemplateName",), have=("launchTemplateId", "createTime"))
    ask(it, "by its name", "ec2", "DescribeLaunchTemplates", LaunchTemplateName=[name], tell=("launchTemplateName",))
    ask(it, "deleted", "ec2", "DeleteLaunchTemplate", LaunchTemplateName=name, tell=("launchTemplateName",))
    ask(it, "deleted again", "ec2", "DeleteLaunchTemplate", LaunchTemplateName=name, code="InvalidLaunchTemplateName.NotFoundException")


def a_fleet_is_launched_found_and_ended(it):
    name = "conformance/fleet"
    call(it, "ec2", "CreateLaunchTemplate", **template(it, name))
    token = str(uuid.uuid4())
    made = ask(it, "launched", "ec2", "CreateFleet", tell=("lifecycle",), have=("instanceIds[]", "fleetId", "fleetInstanceSet[].instanceType"), **fleet(it, name, token, 2))
    it.must(len(made.all("instanceIds[]")) == 2, made.text)
    again = ask(it, "by its token again", "ec2", "CreateFleet", **fleet(it, name, token, 2))
    if it.side.name == "sandbox":
        it.must(again.all("instanceIds[]") == made.all("instanceIds[]"), "the token is heeded")
    ids = made.all("instanceIds[]")
    of_case = [{"Name": "tag:case", "Value": [token]}]
    it.until("they run", lambda: set(call(it, "ec2", "DescribeInstances", InstanceId=ids).all("instanceState.name")) == {"running"})
    ask(it, "by id", "ec2", "DescribeInstances", InstanceId=ids, tell=("architecture", "instanceState.name", "instanceState.code"), have=(
        "instanceId", "instanceType", "imageId", "subnetId", "vpcId", "placement.availabilityZone", "privateDnsName", "privateIpAddress", "launchTime", "tagSet[].key"))
    ask(it, "their checks", "ec2", "DescribeInstanceStatus", InstanceId=ids, tell=("instanceState.name", "instanceStatus.status", "systemStatus.status"))
    impaired = [{"Name": "instance-status.status", "Value": ["impaired"]}]
    ask(it, "checks that fail", "ec2", "DescribeInstanceStatus", Filter=impaired, MaxResults=1000, tell=("instanceId",))
    ending = ["instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop"]
    events = [{"Name": "event.code", "Value": ending}]
    ask(it, "events to come", "ec2", "DescribeInstanceStatus", Filter=events, MaxResults=1000, tell=("instanceId",))
    alive = ["pending", "running", "stopping", "stopped", "shutting-down"]
    running = [{"Name": "instance-state-name", "Value": alive}]
    keys = [{"Name": "tag-key", "Value": ["karpenter.sh/nodepool"]}, {"Name": "tag:eks:eks-cluster-name", "Value": [CLUSTER]}]
    known = ask(it, "by tags", "ec2", "DescribeInstances", Filter=keys + running, MaxResults=500, have=("instanceId",))
    it.must(set(ids) <= set(known.all("instanceId")), "they are found by their tags")
    ask(it, "by an unknown tag", "ec2", "DescribeInstances", Filter=[{"Name": "tag:case", "Value": ["none"]}], tell=("instanceId",))
    ask(it, "unknown", "ec2", "DescribeInstances", InstanceId=["i-0123456789abcdef0"], code="InvalidInstanceID.NotFound")
    ask(it, "malformed", "ec2", "DescribeInstances", InstanceId=["i-x"], code="InvalidInstanceID.Malformed")
    ask(it, "tagged", "ec2", "CreateTags", ResourceId=ids, Tag=[{"Key": "Name", "Value": "node"}], tell=("return",))
    ask(it, "untagged", "ec2", "DeleteTags", ResourceId=ids[:1], Tag=[{"Key": "Name"}], tell=("return",))
    left = [{"Name": "tag:Name", "Value": ["node"]}]
    it.must(call(it, "ec2", "DescribeInstances", Filter=of_case + left).all("instanceId") == ids[1:] or it.side.name == "real", "one has it still")
    ask(it, "tagged, unknown", "ec2", "CreateTags", ResourceId=["i-0123456789abcdef0"], Tag=[{"Key": "a", "Value": "b"}], code="InvalidInstanceID.NotFound")
    ask(it, "of no template", "ec2", "CreateFleet", code="InvalidLaunchTemplateName.NotFoundException", **fleet(it, "conformance/none", str(uuid.uuid4())))
    ask(it, "tried", "ec2", "CreateFleet", code="DryRunOperation", **fleet(it, name, str(uuid.uuid4()), DryRun=True))
    group = call(it, "ec2", "DescribeSecurityGroups", Filter=FOUND).one("groupId")
    interface = {"DeviceIndex": 0, "SubnetId": sorted(subnets(it).values())[0], "SecurityGroupId": [group]}
    ask(it, "an instance, tried", "ec2", "RunInstances", code="DryRunOperation", ClientToken=str(uuid.uuid4()), DryRun=True,
        InstanceType="m5.large", MinCount=1, MaxCount=1, LaunchTemplate={"LaunchTemplateName": name, "Version": "$Latest"},
        NetworkInterface=[interface], TagSpecification=tags("instance"))
    ask(it, "ended, unknown", "ec2", "TerminateInstances", InstanceId=["i-0123456789abcdef0"], code="InvalidInstanceID.NotFound")
    ask(it, "ended, tried", "ec2", "TerminateInstances", InstanceId=ids, DryRun=True, code="DryRunOperation")
    ask(it, "ended", "ec2", "TerminateInstances", InstanceId=ids, tell=("currentState.name", "currentState.code", "previousState.name"))
    ask(it, "ended again", "ec2", "TerminateInstances", InstanceId=ids, tell=("currentState.name",))
    of_late = [{"Name": "instance-state-name", "Value": [*alive, "terminated"]}]
    listed = ask(it, "ended of late", "ec2", "DescribeInstances", Filter=keys + of_late, MaxResults=500, have=("instanceId", "reason"))
    it.must(set(ids) <= set(listed.all("instanceId")), "they are listed for a while")
    call(it, "ec2", "DeleteLaunchTemplate", LaunchTemplateName=name)


def the_queue_keeps_a_message_until_it_is_deleted(it):
    ask(it, "no queue", "sqs", "GetQueueUrl", QueueName="none", code="QueueDoesNotExist")
    ask(it, "the cluster's", "sqs", "GetQueueUrl", QueueName=CLUSTER, have=("QueueUrl",))
    url = call(it, "sqs", "CreateQueue", QueueName="conformance").one("QueueUrl")
    receive = lambda label, **more: ask(it, label, "sqs", "ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10,
                                        MessageSystemAttributeNames=["SentTimestamp"], tell=("Messages[].Body",), **more)
    receive("empty", WaitTimeSeconds=0)
    ask(it, "sent", "sqs", "SendMessage", QueueUrl=url, MessageBody="hello", have=("MessageId", "MD5OfMessageBody"))
    got = receive("received", VisibilityTimeout=20, WaitTimeSeconds=1)
    it.must(got.one("Messages[].Attributes.SentTimestamp") and got.one("Messages[].MD5OfBody"), got.text)
    receive("not seen", WaitTimeSeconds=0)
    handle = got.one("Messages[].ReceiptHandle")
    ask(it, "seen again", "sqs", "ChangeMessageVisibility", QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=0)
    handle = receive("received again", VisibilityTimeout=20, WaitTimeSeconds=1).one("Messages[].ReceiptHandle")
    entries = [{"Id": "0", "ReceiptHandle": handle}, {"Id": "1", "ReceiptHandle": "never"}]
    ask(it, "deleted", "sqs", "DeleteMessageBatch", QueueUrl=url, Entries=entries, tell=("Successful[].Id", "Failed[].Id", "Failed[].Code", "Failed[].SenderFault"))
    receive("gone", WaitTimeSeconds=0)
    ask(it, "twice the same id", "sqs", "DeleteMessageBatch", QueueUrl=url, Entries=[entries[0], entries[0]], code="BatchEntryIdsNotDistinct")
    ask(it, "none", "sqs", "DeleteMessageBatch", QueueUrl=url, Entries=[], code="EmptyBatchRequest")
    ask(it, "of no queue", "sqs", "ReceiveMessage", QueueUrl=url.replace("conformance", "none"), code="QueueDoesNotExist")


def an_instance_profile_holds_one_role(it):
    name = {"InstanceProfileName": "conformance_1"}
    ask(it, "none", "iam", "GetInstanceProfile", code="NoSuchEntity", **name)
    path = f"/karpenter/{REGION}/{CLUSTER}/conformance/"
    given = {"Path": path, "Tags": {"member": [{"Key": "topology.kubernetes.io/region", "Value": REGION}]}, **name}
    ask(it, "made", "iam", "CreateInstanceProfile", tell=("InstanceProfile.Path", "InstanceProfileName", "Tags[].Key", "Tags[].Value"), have=("Arn", "InstanceProfileId", "CreateDate"), **given)
    ask(it, "made again", "iam", "CreateInstanceProfile", code="EntityAlreadyExists", **given)
    ask(it, "no role", "iam", "AddRoleToInstanceProfile", RoleName="none", code="NoSuchEntity", **name)
    ask(it, "role", "iam", "AddRoleToInstanceProfile", RoleName=ROLE, **name)
    ask(it, "role again", "iam", "AddRoleToInstanceProfile", RoleName=ROLE, code="LimitExceeded", **name)
    ask(it, "read", "iam", "GetInstanceProfile", tell=("Roles[].RoleName", "InstanceProfileName", "Tags[].Key"), **name)
    ask(it, "listed", "iam", "ListInstanceProfiles", PathPrefix=path, tell=("InstanceProfileName", "IsTruncated"))
    ask(it, "deleted with its role", "iam", "DeleteInstanceProfile", code="DeleteConflict", **name)
    ask(it, "role off", "iam", "RemoveRoleFromInstanceProfile", RoleName=ROLE, **name)
    ask(it, "role off again", "iam", "RemoveRoleFromInstanceProfile", RoleName=ROLE, code="NoSuchEntity", **name)
    ask(it, "deleted", "iam", "DeleteInstanceProfile", **name)
    ask(it, "deleted again", "iam", "DeleteInstanceProfile", code="NoSuchEntity", **name)


CASES = [
    the_catalogue_is_read_in_pages, the_network_and_images_are_found, a_launch_template_is_made_once,
    a_fleet_is_launched_found_and_ended, the_queue_keeps_a_message_until_it_is_deleted, an_instance_profile_holds_one_role,
]
