"""The requests of Dovetail's EC2 client, made by boto3 against the embedded region.

Usage: check.py http://127.0.0.1:PORT CLUSTER
Each check is a function; a failure prints its name and what was wrong, and the exit status is 1.
"""

import base64
import json
import re
import sys
import time
import traceback
from datetime import datetime, timezone

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

ENDPOINT, CLUSTER = sys.argv[1], sys.argv[2]
REGION = "us-east-1"
NAME = "karpenter.k8s.aws/8412398471239847123"
K8S = "1.33"


def client(service):
    return boto3.client(
        service,
        endpoint_url=ENDPOINT,
        region_name=REGION,
        aws_access_key_id="AKIDEXAMPLE",
        aws_secret_access_key="secret",
        config=Config(retries={"max_attempts": 0}),
    )


EC2, SQS, SSM, PRICING, IAM, EKS, STS = (
    client(s) for s in ("ec2", "sqs", "ssm", "pricing", "iam", "eks", "sts")
)
STATE = {}


def refused(code, call, **parameters):
    try:
        call(**parameters)
    except ClientError as error:
        got = error.response["Error"]["Code"]
        assert got == code, f"{call.__name__} refused with {got}, not {code}"
        return error.response["Error"]["Message"]
    raise AssertionError(f"{call.__name__} was not refused with {code}")


def tag_filter(key, value):
    return {"Name": f"tag:{key}", "Values": [value]}


def discovered(call, key):
    return call(Filters=[tag_filter("karpenter.sh/discovery", CLUSTER)])[key]


def eventually(what, condition, seconds=30):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.25)
    raise AssertionError(f"{what}: not within {seconds} s")


def instance_types_come_in_pages_with_all_that_scheduling_needs():
    filters = [
        {"Name": "supported-virtualization-type", "Values": ["hvm"]},
        {"Name": "processor-info.supported-architecture", "Values": ["x86_64", "arm64"]},
    ]
    pages = EC2.get_paginator("describe_instance_types").paginate(Filters=filters, PaginationConfig={"PageSize": 100})
    types = {t["InstanceType"]: t for page in pages for t in page["InstanceTypes"]}
    assert len(types) > 1000, len(types)
    m5 = types["m5.large"]
    assert m5["VCpuInfo"]["DefaultVCpus"] == 2 and m5["MemoryInfo"]["SizeInMiB"] == 8192
    assert m5["NetworkInfo"]["NetworkCards"][0]["MaximumNetworkInterfaces"] == 3
    assert m5["NetworkInfo"]["Ipv4AddressesPerInterface"] == 10 and m5["Hypervisor"] == "nitro"
    assert set(m5["SupportedUsageClasses"]) >= {"on-demand", "spot"}
    assert types["g5.xlarge"]["GpuInfo"]["Gpus"][0]["Manufacturer"] == "NVIDIA"
    assert types["trn1.2xlarge"]["NeuronInfo"]["NeuronDevices"][0]["CoreInfo"]["Count"] == 2
    assert types["m5d.large"]["InstanceStorageInfo"]["TotalSizeInGB"] == 75
    assert types["m6g.large"]["ProcessorInfo"]["SupportedArchitectures"] == ["arm64"]
    assert EC2.describe_instance_types(InstanceTypes=["c5.large"])["InstanceTypes"][0]["InstanceType"] == "c5.large"
    refused("InvalidInstanceType", EC2.describe_instance_types, InstanceTypes=["m5.enormous"])
    refused("DryRunOperation", EC2.describe_instance_types, DryRun=True)


def offerings_name_zones_of_the_region():
    pages = EC2.get_paginator("describe_instance_type_offerings").paginate(LocationType="availability-zone")
    offerings = [o for page in pages for o in page["InstanceTypeOfferings"]]
    zones = {z["ZoneName"] for z in EC2.describe_availability_zones()["AvailabilityZones"]}
    assert {o["Location"] for o in offerings} <= zones
    assert len(offerings) == len({(o["InstanceType"], o["Location"]) for o in offerings}) > 3000
    assert {z["State"] for z in EC2.describe_availability_zones()["AvailabilityZones"]} == {"available"}


def spot_prices_are_per_type_and_zone():
    pages = EC2.get_paginator("describe_spot_price_history").paginate(
        StartTime=datetime.now(timezone.utc), ProductDescriptions=["Linux/UNIX", "Linux/UNIX (Amazon VPC)"]
    )
    prices = [p for page in pages for p in page["SpotPriceHistory"]]
    assert len(prices) > 2000, len(prices)
    assert all(float(p["SpotPrice"]) > 0 and p["Timestamp"].tzinfo for p in prices)
    one = EC2.describe_spot_price_history(InstanceTypes=["m5.large"], AvailabilityZone="us-east-1a")
    assert len(one["SpotPriceHistory"]) == 1 and 0.01 < float(one["SpotPriceHistory"][0]["SpotPrice"]) < 0.096


def on_demand_prices_read_as_aws_lists_them():
    def terms(tenancy, family):
        fields = {
            "regionCode": REGION, "serviceCode": "AmazonEC2", "preInstalledSw": "NA", "operatingSystem": "Linux",
            "capacitystatus": "Used", "marketoption": "OnDemand", "tenancy": tenancy, "productFamily": family,
        }
        return [{"Type": "TERM_MATCH", "Field": k, "Value": v} for k, v in fields.items()]

    def read(tenancy, family):
        prices = {}
        pages = PRICING.get_paginator("get_products").paginate(
            ServiceCode="AmazonEC2", Filters=terms(tenancy, family), PaginationConfig={"PageSize": 100}
        )
        for text in (text for page in pages for text in page["PriceList"]):
            entry = json.loads(text)
            for term in entry["terms"]["OnDemand"].values():
                for dimension in term["priceDimensions"].values():
                    name = entry["product"]["attributes"]["instanceType"]
                    prices[name] = float(dimension["pricePerUnit"]["USD"])
        return prices

    shared = read("Shared", "Compute Instance")
    metal = read("Dedicated", "Compute Instance (bare metal)")
    assert shared["m5.large"] == 0.096 and len(shared) > 900, len(shared)
    assert metal and all(name.split(".")[1].startswith("metal") for name in metal), sorted(metal)[:5]
    refused("InvalidParameterException", PRICING.get_products, ServiceCode="AmazonNothing")


def subnets_groups_and_vpc_are_found_by_discovery_tag():
    subnets = discovered(EC2.describe_subnets, "Subnets")
    assert len(subnets) == 3 and len({s["AvailabilityZone"] for s in subnets}) == 3
    assert all(s["AvailableIpAddressCount"] > 8000 and s["AvailabilityZoneId"].startswith("use1-") for s in subnets)
    tags = {t["Key"]: t["Value"] for t in subnets[0]["Tags"]}
    assert tags[f"kubernetes.io/cluster/{CLUSTER}"] == "owned"
    groups = discovered(EC2.describe_security_groups, "SecurityGroups")
    assert groups and groups[0]["VpcId"] == subnets[0]["VpcId"]
    assert EC2.describe_vpcs(VpcIds=[subnets[0]["VpcId"]])["Vpcs"][0]["CidrBlock"] == "10.0.0.0/16"
    assert not EC2.describe_subnets(Filters=[tag_filter("karpenter.sh/discovery", "other")])["Subnets"]
    assert EC2.describe_subnets(Filters=[{"Name": "tag-key", "Values": ["karpenter.sh/*"]}])["Subnets"]
    refused("InvalidSubnetID.NotFound", EC2.describe_subnets, SubnetIds=["subnet-0123456789abcdef0"])
    refused("InvalidGroup.NotFound", EC2.describe_security_groups, GroupIds=["sg-0123456789abcdef0"])
    refused("InvalidParameterValue", EC2.describe_subnets, Filters=[{"Name": "no-such", "Values": ["x"]}])
    STATE["subnets"], STATE["groups"] = subnets, [g["GroupId"] for g in groups]


def parameters_lead_to_images():
    base = f"/aws/service/eks/optimized-ami/{K8S}/amazon-linux-2023"
    amd = SSM.get_parameter(Name=f"{base}/x86_64/standard/recommended/image_id")["Parameter"]["Value"]
    both = SSM.get_parameters(Names=[f"{base}/arm64/standard/recommended/image_id", "/aws/service/nothing"])
    arm = both["Parameters"][0]["Value"]
    assert both["InvalidParameters"] == ["/aws/service/nothing"]
    refused("ParameterNotFound", SSM.get_parameter, Name="/aws/service/nothing")
    images = EC2.describe_images(ImageIds=[amd, arm], IncludeDeprecated=True, Filters=[
        {"Name": "state", "Values": ["available"]}])["Images"]
    assert {i["ImageId"]: i["Architecture"] for i in images} == {amd: "x86_64", arm: "arm64"}
    named = EC2.describe_images(Owners=["amazon"], Filters=[{"Name": "name", "Values": [f"*al2023-x86_64-standard-{K8S}*"]}])
    newest = max(named["Images"], key=lambda image: image["CreationDate"])
    assert newest["ImageId"] == amd and len(named["Images"]) == 2
    assert not EC2.describe_images(Owners=["self"])["Images"]
    refused("InvalidAMIID.NotFound", EC2.describe_images, ImageIds=["ami-0123456789abcdef0"])
    refused("InvalidAMIID.Malformed", EC2.describe_images, ImageIds=["ami-x"])
    STATE["ami"], STATE["arm"] = amd, arm


def a_launch_template_is_made_once_and_read_back():
    data = {
        "ImageId": STATE["ami"],
        "UserData": base64.b64encode(b"#!/bin/bash\necho hello & <hello>\n").decode(),
        "IamInstanceProfile": {"Name": f"KarpenterNodeInstanceProfile-{CLUSTER}"},
        "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1, "HttpEndpoint": "enabled"},
        "BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 20, "VolumeType": "gp3", "Encrypted": True}}],
        "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": STATE["groups"]}],
        "TagSpecifications": [{"ResourceType": "network-interface", "Tags": [{"Key": "a", "Value": "b"}]}],
    }
    parameters = {
        "LaunchTemplateName": NAME, "LaunchTemplateData": data,
        "TagSpecifications": [{"ResourceType": "launch-template", "Tags": [{"Key": "eks:eks-cluster-name", "Value": CLUSTER}]}],
    }
    refused("DryRunOperation", EC2.create_launch_template, DryRun=True, **parameters)
    made = EC2.create_launch_template(**parameters)["LaunchTemplate"]
    refused("InvalidLaunchTemplateName.AlreadyExistsException", EC2.create_launch_template, **parameters)
    found = EC2.describe_launch_templates(Filters=[tag_filter("eks:eks-cluster-name", CLUSTER)])["LaunchTemplates"]
    assert [t["LaunchTemplateId"] for t in found] == [made["LaunchTemplateId"]] and found[0]["CreateTime"].tzinfo
    version = EC2.describe_launch_template_versions(LaunchTemplateName=NAME, Versions=["$Latest"])
    back = version["LaunchTemplateVersions"][0]["LaunchTemplateData"]
    assert back["UserData"] == data["UserData"] and back["NetworkInterfaces"][0]["Groups"] == STATE["groups"]
    assert back["BlockDeviceMappings"][0]["Ebs"] == {"VolumeSize": 20, "VolumeType": "gp3", "Encrypted": True}
    assert back["TagSpecifications"] == data["TagSpecifications"]
    assert back["MetadataOptions"]["HttpPutResponseHopLimit"] == 1
    refused("InvalidLaunchTemplateName.NotFoundException", EC2.describe_launch_templates, LaunchTemplateNames=["absent"])


def fleet(token=None, types=("m5.large", "c5.large"), capacity="spot", **more):
    overrides = [
        {"InstanceType": t, "SubnetId": s["SubnetId"], "AvailabilityZone": s["AvailabilityZone"], "Priority": 1.5}
        for t in types for s in STATE["subnets"]
    ]
    parameters = {
        "Type": "instant",
        "LaunchTemplateConfigs": [{
            "LaunchTemplateSpecification": {"LaunchTemplateName": more.pop("template", NAME), "Version": "$Latest"},
            "Overrides": overrides,
        }],
        "TargetCapacitySpecification": {"TotalTargetCapacity": more.pop("count", 1), "DefaultTargetCapacityType": capacity},
        "TagSpecifications": [{"ResourceType": "instance", "Tags": [
            {"Key": "karpenter.sh/nodepool", "Value": "default"}, {"Key": "eks:eks-cluster-name", "Value": CLUSTER}]}],
        **more,
    }
    if capacity == "spot":
        parameters["SpotOptions"] = {"AllocationStrategy": "price-capacity-optimized"}
    else:
        parameters["OnDemandOptions"] = {"AllocationStrategy": "lowest-price"}
    if token:
        parameters["ClientToken"] = token
    return EC2.create_fleet, parameters


def a_fleet_is_idempotent_by_its_token():
    call, parameters = fleet("token-a")
    refused("DryRunOperation", call, DryRun=True, **parameters)
    first, second = call(**parameters), call(**parameters)
    assert first["FleetId"] == second["FleetId"] and not first["Errors"]
    launched = first["Instances"][0]
    assert launched["InstanceIds"] == second["Instances"][0]["InstanceIds"] and launched["Lifecycle"] == "spot"
    chosen = launched["LaunchTemplateAndOverrides"]["Overrides"]
    assert chosen["InstanceType"] == launched["InstanceType"] and chosen["SubnetId"].startswith("subnet-")
    refused("IdempotentParameterMismatch", *split(fleet("token-a", types=("m5.xlarge",))))
    STATE["spot"] = launched["InstanceIds"][0]


def split(call_and_parameters):
    call, parameters = call_and_parameters
    bound = lambda **extra: call(**parameters, **extra)
    bound.__name__ = call.__name__
    return (bound,)


def a_fleet_reports_what_it_could_not_have():
    call, parameters = fleet(types=("p6-b300.48xlarge", "m5.large"), capacity="on-demand", count=2)
    answer = call(**parameters)
    assert sum(len(i["InstanceIds"]) for i in answer["Instances"]) == 2
    assert answer["Instances"][0]["InstanceType"] == "m5.large" and answer["Instances"][0]["Lifecycle"] == "on-demand"
    # An arm64 type with an x86_64 image, and a type that is not offered: nothing launched, one error a pool.
    call, parameters = fleet(types=("m6g.large",), capacity="on-demand")
    none = call(**parameters)
    assert not none["Instances"] and len(none["Errors"]) == 3
    error = none["Errors"][0]
    assert error["ErrorCode"] == "InvalidParameterValue" and "architecture" in error["ErrorMessage"]
    assert error["LaunchTemplateAndOverrides"]["Overrides"]["AvailabilityZone"].startswith(REGION)
    assert error["LaunchTemplateAndOverrides"]["LaunchTemplateSpecification"]["LaunchTemplateName"] == NAME
    refused("InvalidLaunchTemplateName.NotFoundException", *split(fleet(template="absent")))
    STATE["on-demand"] = [i for group in answer["Instances"] for i in group["InstanceIds"]]


def what_is_sold_out_is_refused_with_its_pool():
    # The host of this script has the type r5.large sold out as spot.
    call, parameters = fleet(types=("r5.large",))
    answer = call(**parameters)
    assert not answer["Instances"]
    assert [e["ErrorCode"] for e in answer["Errors"]] == ["InsufficientInstanceCapacity"] * 3
    zones = {e["LaunchTemplateAndOverrides"]["Overrides"]["AvailabilityZone"] for e in answer["Errors"]}
    assert len(zones) == 3 and {e["Lifecycle"] for e in answer["Errors"]} == {"spot"}


def what_the_account_may_not_have_is_refused_by_its_code():
    # The host of this script gives the account no vCPUs of x1 and x2 types, and no right to make security groups.
    call, parameters = fleet(types=("x1.16xlarge",), capacity="on-demand")
    answer = call(**parameters)
    assert not answer["Instances"] and {e["ErrorCode"] for e in answer["Errors"]} <= {"VcpuLimitExceeded", "Unsupported"}
    assert "VcpuLimitExceeded" in {e["ErrorCode"] for e in answer["Errors"]}
    try:
        EC2.create_security_group(GroupName="g", Description="d")
        raise AssertionError("not denied")
    except ClientError as error:
        assert error.response["Error"]["Code"] == "UnauthorizedOperation"
        assert "not authorized to perform: ec2:CreateSecurityGroup" in error.response["Error"]["Message"]


def instances_are_found_by_tag_token_and_state():
    cluster = [{"Name": "tag-key", "Values": ["karpenter.sh/nodepool"]}, tag_filter("eks:eks-cluster-name", CLUSTER)]

    def running():
        pages = EC2.get_paginator("describe_instances").paginate(
            Filters=cluster + [{"Name": "instance-state-name", "Values": ["running"]}], PaginationConfig={"PageSize": 5})
        found = {i["InstanceId"]: i for p in pages for r in p["Reservations"] for i in r["Instances"]}
        return found if len(found) == 3 else None

    found = eventually("three instances run", running)
    assert set(found) == {STATE["spot"], *STATE["on-demand"]}
    spot = found[STATE["spot"]]
    assert spot["InstanceLifecycle"] == "spot" and spot["SpotInstanceRequestId"].startswith("sir-")
    assert spot["PrivateDnsName"] == f"ip-{spot['PrivateIpAddress'].replace('.', '-')}.ec2.internal"
    assert spot["Placement"]["AvailabilityZone"].startswith(REGION) and spot["State"] == {"Code": 16, "Name": "running"}
    assert [g["GroupId"] for g in spot["SecurityGroups"]] == sorted(STATE["groups"]) or spot["SecurityGroups"]
    assert spot["IamInstanceProfile"]["Arn"].endswith(f"KarpenterNodeInstanceProfile-{CLUSTER}")
    assert spot["MetadataOptions"]["HttpTokens"] == "required" and spot["LaunchTime"].tzinfo
    assert "InstanceLifecycle" not in found[STATE["on-demand"][0]]
    token = EC2.describe_instances(Filters=[{"Name": "client-token", "Values": ["token-a"]}])
    assert token["Reservations"][0]["Instances"][0]["InstanceId"] == STATE["spot"]
    refused("InvalidInstanceID.NotFound", EC2.describe_instances, InstanceIds=["i-0123456789abcdef0"])
    refused("InvalidInstanceID.Malformed", EC2.describe_instances, InstanceIds=["i-xyz"])
    statuses = EC2.describe_instance_status(InstanceIds=[STATE["spot"]])["InstanceStatuses"]
    assert statuses[0]["InstanceStatus"]["Status"] == "ok" and statuses[0]["SystemStatus"]["Details"][0]["Status"] == "passed"
    assert not EC2.describe_instance_status(Filters=[{"Name": "instance-status.status", "Values": ["impaired"]}])["InstanceStatuses"]
    subnet = EC2.describe_subnets(SubnetIds=[spot["SubnetId"]])["Subnets"][0]
    assert subnet["AvailableIpAddressCount"] < 8187


def tags_come_and_go():
    ids = [STATE["spot"]]
    EC2.create_tags(Resources=ids, Tags=[{"Key": "Name", "Value": "node"}, {"Key": "x", "Value": ""}])
    tags = lambda: {t["Key"]: t["Value"] for t in
                    EC2.describe_instances(InstanceIds=ids)["Reservations"][0]["Instances"][0]["Tags"]}
    assert tags()["Name"] == "node" and tags()["x"] == ""
    EC2.delete_tags(Resources=ids, Tags=[{"Key": "x"}, {"Key": "Name", "Value": "another"}])
    assert "x" not in tags() and tags()["Name"] == "node"
    # What the registrar puts on an instance once its node has registered; twice is once.
    for _ in range(2):
        EC2.create_tags(Resources=ids, Tags=[{"Key": "Name", "Value": "ip-10-0-0-10.ec2.internal"}, {"Key": "karpenter.sh/nodeclaim", "Value": "default-abcde"}])
    assert (tags()["Name"], tags()["karpenter.sh/nodeclaim"]) == ("ip-10-0-0-10.ec2.internal", "default-abcde")
    assert tags()["karpenter.sh/nodepool"] == "default", "what it had before"
    found = EC2.describe_instances(Filters=[tag_filter("karpenter.sh/nodeclaim", "default-abcde")])["Reservations"]
    assert [i["InstanceId"] for r in found for i in r["Instances"]] == ids
    refused("DryRunOperation", EC2.create_tags, Resources=ids, Tags=[{"Key": "y", "Value": "z"}], DryRun=True)
    refused("InvalidParameterValue", EC2.create_tags, Resources=ids, Tags=[{"Key": "aws:x", "Value": "z"}])
    refused("TagLimitExceeded", EC2.create_tags, Resources=ids, Tags=[{"Key": f"k{n}", "Value": ""} for n in range(50)])
    assert "y" not in tags()
    refused("InvalidInstanceID.NotFound", EC2.create_tags, Resources=["i-0123456789abcdef0"], Tags=[{"Key": "a", "Value": "b"}])


def run_instances_can_be_tried_and_done():
    parameters = {"ImageId": STATE["ami"], "InstanceType": "t3.small", "MinCount": 1, "MaxCount": 2,
                  "SubnetId": STATE["subnets"][0]["SubnetId"], "ClientToken": "run-1"}
    refused("DryRunOperation", EC2.run_instances, DryRun=True, **parameters)
    first, again = EC2.run_instances(**parameters), EC2.run_instances(**parameters)
    ids = [i["InstanceId"] for i in first["Instances"]]
    assert len(ids) == 2 and ids == [i["InstanceId"] for i in again["Instances"]]
    assert first["Instances"][0]["State"]["Name"] == "pending"
    STATE["run"] = ids


def the_queue_hears_of_every_change_and_forgets_what_is_deleted():
    url = SQS.get_queue_url(QueueName=CLUSTER)["QueueUrl"]
    seen = {}
    while True:
        received = SQS.receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=20, WaitTimeSeconds=1,
                                       AttributeNames=["SentTimestamp"], MessageAttributeNames=["All"])
        messages = received.get("Messages", [])
        if not messages:
            break
        for message in messages:
            body = json.loads(message["Body"])
            assert body["source"] == "aws.ec2" and int(message["Attributes"]["SentTimestamp"]) > 0
            seen.setdefault(body["detail"]["instance-id"], []).append(body["detail"]["state"])
        deleted = SQS.delete_message_batch(QueueUrl=url, Entries=[
            {"Id": str(n), "ReceiptHandle": m["ReceiptHandle"]} for n, m in enumerate(messages)])
        assert len(deleted["Successful"]) == len(messages) and not deleted.get("Failed")
    assert {"pending", "running"} <= set(seen[STATE["spot"]]), seen
    other = SQS.create_queue(QueueName="other")["QueueUrl"]
    sent = SQS.send_message(QueueUrl=other, MessageBody="hello")
    got = SQS.receive_message(QueueUrl=other)["Messages"][0]
    assert got["MessageId"] == sent["MessageId"] and got["MD5OfBody"] == sent["MD5OfMessageBody"]
    assert not SQS.receive_message(QueueUrl=other).get("Messages")
    SQS.change_message_visibility(QueueUrl=other, ReceiptHandle=got["ReceiptHandle"], VisibilityTimeout=0)
    again = SQS.receive_message(QueueUrl=other)["Messages"][0]
    SQS.delete_message(QueueUrl=other, ReceiptHandle=again["ReceiptHandle"])
    twice = [{"Id": "0", "ReceiptHandle": again["ReceiptHandle"]}] * 2
    refused("AWS.SimpleQueueService.BatchEntryIdsNotDistinct", SQS.delete_message_batch, QueueUrl=other, Entries=twice)
    refused("ReceiptHandleIsInvalid", SQS.delete_message, QueueUrl=other, ReceiptHandle="never")
    message = refused("AWS.SimpleQueueService.NonExistentQueue", SQS.get_queue_url, QueueName="absent")
    assert "does not exist" in message


def profiles_are_made_filled_and_removed():
    path = f"/karpenter/{REGION}/{CLUSTER}/uid-1/"
    tags = [{"Key": "topology.kubernetes.io/region", "Value": REGION}]
    made = IAM.create_instance_profile(InstanceProfileName="demo_123", Path=path, Tags=tags)["InstanceProfile"]
    assert made["Tags"] == tags and made["Arn"].endswith(f"instance-profile{path}demo_123")
    refused("EntityAlreadyExists", IAM.create_instance_profile, InstanceProfileName="demo_123", Path=path)
    role = f"KarpenterNodeRole-{CLUSTER}"
    refused("NoSuchEntity", IAM.add_role_to_instance_profile, InstanceProfileName="demo_123", RoleName="absent")
    IAM.add_role_to_instance_profile(InstanceProfileName="demo_123", RoleName=role)
    refused("LimitExceeded", IAM.add_role_to_instance_profile, InstanceProfileName="demo_123", RoleName=role)
    IAM.tag_instance_profile(InstanceProfileName="demo_123", Tags=[{"Key": "k", "Value": "v"}])
    read = IAM.get_instance_profile(InstanceProfileName="demo_123")["InstanceProfile"]
    assert read["Roles"][0]["RoleName"] == role and {"Key": "k", "Value": "v"} in read["Tags"]
    listed = IAM.get_paginator("list_instance_profiles").paginate(PathPrefix=f"/karpenter/{REGION}/{CLUSTER}/")
    assert [p["InstanceProfileName"] for page in listed for p in page["InstanceProfiles"]] == ["demo_123"]
    refused("DeleteConflict", IAM.delete_instance_profile, InstanceProfileName="demo_123")
    IAM.remove_role_from_instance_profile(InstanceProfileName="demo_123", RoleName=role)
    IAM.delete_instance_profile(InstanceProfileName="demo_123")
    refused("NoSuchEntity", IAM.get_instance_profile, InstanceProfileName="demo_123")
    policy = IAM.get_role(RoleName=role)["Role"]["AssumeRolePolicyDocument"]
    assert policy["Statement"][0]["Principal"] == {"Service": "ec2.amazonaws.com"}
    assert IAM.create_service_linked_role(AWSServiceName="spot.amazonaws.com")["Role"]["RoleName"] == "AWSServiceRoleForEC2Spot"
    refused("InvalidInput", IAM.create_service_linked_role, AWSServiceName="spot.amazonaws.com")


def the_cluster_and_the_caller_are_known():
    cluster = EKS.describe_cluster(name=CLUSTER)["cluster"]
    assert cluster["version"] == K8S and cluster["status"] == "ACTIVE"
    assert cluster["kubernetesNetworkConfig"]["serviceIpv4Cidr"].endswith("/16")
    assert base64.b64decode(cluster["certificateAuthority"]["data"]) and cluster["createdAt"].tzinfo
    refused("ResourceNotFoundException", EKS.describe_cluster, name="absent")
    assert STS.get_caller_identity()["Account"] == cluster["arn"].split(":")[4]
    role = f"arn:aws:iam::111122223333:role/{CLUSTER}"
    assumed = STS.assume_role_with_web_identity(RoleArn=role, RoleSessionName="session", WebIdentityToken="t" * 20)
    assert assumed["Credentials"]["Expiration"] > datetime.now(timezone.utc)


def template(name, **more):
    """A launch template beside the first one; what is made from it is ended by its check."""
    data = {"ImageId": STATE["ami"], "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": STATE["groups"]}], **more}
    EC2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=data)


def launched(answer):
    assert not answer["Errors"], answer["Errors"]
    ids = [i for group in answer["Instances"] for i in group["InstanceIds"]]
    return EC2.describe_instances(InstanceIds=ids)["Reservations"][0]["Instances"][0]


def a_placement_group_is_described_and_launched_into():
    # The host of this script has one of three partitions.
    named = EC2.describe_placement_groups(Filters=[{"Name": "group-name", "Values": ["rack"]}])["PlacementGroups"]
    group = {"GroupId": "pg-0123456789abcdef0", "GroupName": "rack", "Strategy": "partition", "State": "available", "PartitionCount": 3}
    assert [{key: one[key] for key in group} for one in named] == [group], named
    assert EC2.describe_placement_groups(GroupIds=[group["GroupId"]])["PlacementGroups"] == named
    assert EC2.describe_placement_groups(Filters=[{"Name": "group-name", "Values": ["absent"]}])["PlacementGroups"] == []
    refused("InvalidPlacementGroup.Unknown", EC2.describe_placement_groups, GroupNames=["absent"])
    template("grouped", Placement={"GroupId": group["GroupId"], "PartitionNumber": 2, "Tenancy": "dedicated"})
    call, parameters = fleet(types=("m5.large",), capacity="on-demand", template="grouped")
    there = launched(call(**parameters))
    placement = {"GroupName": "rack", "PartitionNumber": 2, "Tenancy": "dedicated"}
    assert {key: there["Placement"].get(key) for key in placement} == placement, there["Placement"]
    template("beyond", Placement={"GroupId": group["GroupId"], "PartitionNumber": 4})
    call, parameters = fleet(types=("m5.large",), capacity="on-demand", template="beyond")
    none = call(**parameters)
    assert not none["Instances"] and {one["ErrorCode"] for one in none["Errors"]} == {"InvalidParameterValue"}
    EC2.terminate_instances(InstanceIds=[there["InstanceId"]])
    for name in ("grouped", "beyond"):
        EC2.delete_launch_template(LaunchTemplateName=name)


def reserved_capacity_is_described_and_launched_into_by_its_kind():
    # The host of this script has two m5.xlarge reserved, and a capacity block of two m5.2xlarge.
    state = [{"Name": "state", "Values": ["active"]}]
    reserved = lambda: {one["CapacityReservationId"]: one for one in
                        EC2.describe_capacity_reservations(Filters=state + [tag_filter("team", "ml")])["CapacityReservations"]}
    plain, block = reserved()["cr-0123456789abcdef0"], reserved()["cr-0123456789abcdef1"]
    assert (plain["InstanceType"], plain["ReservationType"], plain["AvailableInstanceCount"]) == ("m5.xlarge", "default", 2)
    assert (block["ReservationType"], block["EndDateType"]) == ("capacity-block", "limited")
    assert block["EndDate"] > datetime.now(timezone.utc) and "EndDate" not in plain
    refused("InvalidCapacityReservationId.NotFound", EC2.describe_capacity_reservations, CapacityReservationIds=["cr-0123456789abcdef9"])

    def target(one):
        return {"CapacityReservationPreference": "capacity-reservations-only",
                "CapacityReservationTarget": {"CapacityReservationId": one["CapacityReservationId"]}}

    ids = []
    for name, one, market, kind in (
        ("reserved", plain, {}, "on-demand"),
        ("block", block, {"InstanceMarketOptions": {"MarketType": "capacity-block"}}, "capacity-block"),
    ):
        template(name, CapacityReservationSpecification=target(one), **market)
        call, parameters = fleet(types=(one["InstanceType"],), capacity=kind, template=name)
        if kind == "capacity-block":
            del parameters["OnDemandOptions"]
        overrides = parameters["LaunchTemplateConfigs"][0]["Overrides"]
        overrides[:] = [over for over in overrides if over["AvailabilityZone"] == one["AvailabilityZone"]]
        there = launched(call(**parameters))
        assert there["CapacityReservationId"] == one["CapacityReservationId"], there
        assert reserved()[one["CapacityReservationId"]]["AvailableInstanceCount"] == 1
        ids.append(there["InstanceId"])
    # A capacity block takes its own market type alone.
    template("wrong", CapacityReservationSpecification=target(block))
    call, parameters = fleet(types=("m5.2xlarge",), capacity="on-demand", template="wrong")
    none = call(**parameters)
    assert not none["Instances"] and {one["ErrorCode"] for one in none["Errors"]} == {"InvalidParameterValue"}
    EC2.terminate_instances(InstanceIds=ids)
    assert reserved()[plain["CapacityReservationId"]]["AvailableInstanceCount"] == 2
    for name in ("reserved", "block", "wrong"):
        EC2.delete_launch_template(LaunchTemplateName=name)


def nothing_is_wrong_with_the_instances():
    impaired = [{"Name": "system-status.status", "Values": ["impaired"]}]
    assert EC2.describe_instance_status(Filters=impaired)["InstanceStatuses"] == []


def instances_end_and_are_described_until_forgotten():
    ids = [STATE["spot"], *STATE["on-demand"], *STATE["run"]]
    refused("DryRunOperation", EC2.terminate_instances, InstanceIds=ids, DryRun=True)
    refused("InvalidInstanceID.NotFound", EC2.terminate_instances, InstanceIds=[ids[0], "i-0123456789abcdef0"])
    ended = EC2.terminate_instances(InstanceIds=ids)["TerminatingInstances"]
    assert {i["CurrentState"]["Name"] for i in ended} == {"shutting-down"}
    assert ended[0]["PreviousState"]["Name"] == "running"
    again = EC2.terminate_instances(InstanceIds=ids[:1])["TerminatingInstances"][0]
    assert again["PreviousState"]["Name"] in ("shutting-down", "terminated")
    reason = EC2.describe_instances(InstanceIds=ids[:1])["Reservations"][0]["Instances"][0]["StateReason"]
    assert reason["Code"] == "Client.UserInitiatedShutdown"
    why = EC2.describe_instances(InstanceIds=ids[:1])["Reservations"][0]["Instances"][0]["StateTransitionReason"]
    assert re.fullmatch(r"User initiated \(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d GMT\)", why), why


def a_launch_template_can_be_deleted():
    deleted = EC2.delete_launch_template(LaunchTemplateName=NAME)["LaunchTemplate"]
    assert deleted["LaunchTemplateName"] == NAME
    refused("InvalidLaunchTemplateName.NotFoundException", EC2.delete_launch_template, LaunchTemplateName=NAME)
    assert not EC2.describe_launch_templates()["LaunchTemplates"]


CHECKS = [
    instance_types_come_in_pages_with_all_that_scheduling_needs,
    offerings_name_zones_of_the_region,
    spot_prices_are_per_type_and_zone,
    on_demand_prices_read_as_aws_lists_them,
    subnets_groups_and_vpc_are_found_by_discovery_tag,
    parameters_lead_to_images,
    a_launch_template_is_made_once_and_read_back,
    a_fleet_is_idempotent_by_its_token,
    a_fleet_reports_what_it_could_not_have,
    what_is_sold_out_is_refused_with_its_pool,
    what_the_account_may_not_have_is_refused_by_its_code,
    instances_are_found_by_tag_token_and_state,
    tags_come_and_go,
    run_instances_can_be_tried_and_done,
    the_queue_hears_of_every_change_and_forgets_what_is_deleted,
    profiles_are_made_filled_and_removed,
    the_cluster_and_the_caller_are_known,
    a_placement_group_is_described_and_launched_into,
    reserved_capacity_is_described_and_launched_into_by_its_kind,
    nothing_is_wrong_with_the_instances,
    instances_end_and_are_described_until_forgotten,
    a_launch_template_can_be_deleted,
]

failed = 0
for check in CHECKS:
    try:
        check()
        print(f"ok      {check.__name__}")
    except Exception:  # each check is reported, whatever went wrong
        failed += 1
        print(f"FAILED  {check.__name__}\n{traceback.format_exc()}")
print(f"{len(CHECKS) - failed} of {len(CHECKS)} checks passed")
sys.exit(1 if failed else 0)
