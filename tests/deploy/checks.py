"""From a request to the checks that IAM makes of it: action, resource, and the keys that conditions see.

A request to EC2 is more than one check: CreateFleet is one on the fleet, and RunInstances on all that an instance is made
of, CreateTags for each kind that it tags, PassRole for the role of the profile. Which actions look at which kinds is held
to AWS's service authorization reference by test_policies.py.
"""

import json
import re
import urllib.parse

ACCOUNT, PARTITION = "111122223333", "aws"
#: What the account's own things are called in requests.json; test_policies.py checks against the same.
SNAPSHOT = "snap-0123456789abcdef0"
INSTANCE_ID = re.compile(r"\bi-[0-9a-f]{8,17}\b")
#: Values that are others each time, and what stands for them.
OTHERS = [
    (INSTANCE_ID, "i-0123456789abcdef0"),
    (re.compile(r"\b(ami|subnet|sg)-[0-9a-f]{8,17}\b"), r"\1-0123456789abcdef0"),
    (re.compile(r"(launch-template/).*"), r"\1lt-0123456789abcdef0"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "11111111-2222-3333-4444-555555555555"),
    (re.compile(r"(/|^)demo_[0-9a-f]+$"), r"\1demo_0123456789abcdef"),
]
#: Tags whose values name one launch; their keys are what conditions may look at.
NAMED = {"dovetail.dev/launch-token": "token", "karpenter.sh/nodeclaim": "claim"}


def client(service, address):
    """A client of the sandbox's region."""
    import boto3

    keys = {"aws_access_key_id": "record", "aws_secret_access_key": "record"}
    return boto3.client(service, endpoint_url=f"http://{address}", region_name="us-east-1", **keys)


def arn(service, rest, region="us-east-1", account=ACCOUNT):
    return f"arn:{PARTITION}:{service}:{region}:{account}:{rest}"


def nested(pairs):
    """A form's `A.1.B` as dictionaries, the numbers as keys."""
    top = {}
    for name, value in pairs:
        at, steps = top, name.split(".")
        for step in steps[:-1]:
            at = at.setdefault(step, {})
        at[steps[-1]] = value
    return top


def listed(numbered):
    """What a form numbers, in order."""
    numbered = (numbered or {}).get("member", numbered) or {}
    return [numbered[key] for key in sorted(numbered, key=int)]


def tags_of(numbered):
    return {one["Key"]: one.get("Value", "") for one in listed(numbered)}


def by_kind(specifications):
    """Tags by the kind of resource that a request puts them on."""
    return {one["ResourceType"]: tags_of(one.get("Tag")) for one in listed(specifications)}


class Request:
    """A request to AWS: service, operation, region, parameters."""

    #: Launch templates by name, as they were asked for: what a fleet is made of.
    templates = {}

    def __init__(self, service, operation, region, fields):
        self.service, self.operation, self.region, self.fields = service, operation, region, fields

    @classmethod
    def read(cls, method, path, headers, body):
        headers = {name.lower(): value for name, value in headers.items()}
        credential = re.search(r"Credential=([^,\s]+)", headers["authorization"])[1].split("/")
        region, service = credential[2], credential[3]
        if "x-amz-target" in headers:
            return cls(service, headers["x-amz-target"].split(".")[-1], region, json.loads(body))
        if service == "savingsplans":
            return cls(service, urllib.parse.urlsplit(path).path.strip("/"), region, json.loads(body))
        if service == "arc-zonal-shift":
            named = re.fullmatch(r"/managedresources/([^/]+)", urllib.parse.urlsplit(path).path)
            if method != "GET" or not named:
                raise ValueError(f"a request to ARC that is not known: {method} {path}")
            return cls(service, "GetManagedResource", region, {"resource": urllib.parse.unquote(named[1])})
        if service == "eks":
            named = re.fullmatch(r"/clusters/([^/]+)", urllib.parse.urlsplit(path).path)
            if method != "GET" or not named:
                raise ValueError(f"an EKS request that is not known: {method} {path}")
            return cls(service, "DescribeCluster", region, {"name": urllib.parse.unquote(named[1])})
        fields = nested(urllib.parse.parse_qsl(body.decode(), keep_blank_values=True))
        request = cls(service, fields.pop("Action"), region, fields)
        if request.operation == "CreateLaunchTemplate":
            cls.templates[fields["LaunchTemplateName"]] = fields
        return request

    def name(self):
        return f"{self.service}.{self.operation}"

    def resource_tags(self, upstream):
        """Tags of what the request is about, by id, and what else only the region knows; before it is carried out."""
        if self.name() in ("ec2.TerminateInstances", "ec2.RebootInstances", "ec2.CreateTags"):
            ids = listed(self.fields.get("InstanceId") or self.fields.get("ResourceId"))
            there = client("ec2", upstream).describe_instances(Filters=[{"Name": "instance-id", "Values": ids}])
            instances = [one for all_of in there["Reservations"] for one in all_of["Instances"]]
            return {one["InstanceId"]: {tag["Key"]: tag["Value"] for tag in one["Tags"]} for one in instances}
        profiles = []
        if self.service == "iam" and "InstanceProfileName" in self.fields and self.operation != "CreateInstanceProfile":
            profiles = [self.fields["InstanceProfileName"]]
        if self.operation == "CreateFleet":
            profiles = [profile_in(one) for one in self.own_templates()]
        if self.operation == "RunInstances":
            profiles = [profile_in(self.templates[self.fields["LaunchTemplate"]["LaunchTemplateName"]])]
        return {name: found for name in profiles if (found := profile(upstream, name))}

    def own_templates(self):
        configs = listed(self.fields["LaunchTemplateConfigs"])
        return [self.templates[one["LaunchTemplateSpecification"]["LaunchTemplateName"]] for one in configs]

    def checks(self, before):
        """(action, resource, condition keys), each once."""
        made = getattr(self, f"of_{self.service.replace('-', '_')}_{self.operation}", None)
        if made:
            checks = made(before)
        elif self.service == "ec2" and self.operation.startswith("Describe") or self.name() in ("pricing.GetProducts", "iam.ListInstanceProfiles"):
            checks = [(f"{self.service}:{self.operation}", "*", {})]
        else:
            raise ValueError(f"{self.name()}: what IAM checks for it is not written down: add it to checks.py")
        return [(action, resource, {"aws:RequestedRegion": self.region, **keys}) for action, resource, keys in checks]

    # EC2.

    def of_ec2_CreateLaunchTemplate(self, _):
        return tagged(["CreateLaunchTemplate"], by_kind(self.fields["TagSpecification"]))

    def of_ec2_DeleteLaunchTemplate(self, _):
        name = self.fields["LaunchTemplateName"]
        return [("ec2:DeleteLaunchTemplate", arn("ec2", f"launch-template/{name}"), own(template_tags(self.templates[name])))]

    def of_ec2_TerminateInstances(self, before):
        ids = listed(self.fields["InstanceId"])
        return [("ec2:TerminateInstances", arn("ec2", f"instance/{one}"), own(before[one])) for one in ids if one in before]

    def of_ec2_RebootInstances(self, before):
        ids = listed(self.fields["InstanceId"])
        return [("ec2:RebootInstances", arn("ec2", f"instance/{one}"), own(before[one])) for one in ids if one in before]

    def of_ec2_CreateTags(self, before):
        new = asked_for(tags_of(self.fields["Tag"]))
        return [("ec2:CreateTags", arn("ec2", f"instance/{one}"), {**new, **own(before[one])}) for one in listed(self.fields["ResourceId"])]

    def of_ec2_CreateFleet(self, before):
        kinds = by_kind(self.fields["TagSpecification"])
        checks = tagged(["CreateFleet"], kinds)
        launched = {kind: tags for kind, tags in kinds.items() if kind != "fleet"}
        for template, config in zip(self.own_templates(), listed(self.fields["LaunchTemplateConfigs"])):
            data = template["LaunchTemplateData"]
            checks += tagged(["RunInstances"], {**launched, **by_kind(data["TagSpecification"])})
            checks += [(f"ec2:{action}", resource, keys) for action in ("CreateFleet", "RunInstances") for resource, keys in made_of(template, config)]
            # The reference has no check of a fleet on these.
            checks += [("ec2:RunInstances", resource, {}) for resource in only_run(data)]
            for role in before[profile_in(template)]["roles"]:
                checks.append(pass_role(role))
        return checks

    def of_ec2_RunInstances(self, before):
        """A dry run for a node class: what an instance on demand is made of, by the class's own template."""
        template = self.templates[self.fields["LaunchTemplate"]["LaunchTemplateName"]]
        data = template["LaunchTemplateData"]
        kinds = by_kind(self.fields["TagSpecification"])
        checks = tagged(["RunInstances"], {**kinds, **by_kind(data["TagSpecification"])})
        over = {"1": {"SubnetId": self.fields["NetworkInterface"]["1"]["SubnetId"], "InstanceType": self.fields["InstanceType"]}}
        checks += [("ec2:RunInstances", resource, keys) for resource, keys in made_of(template, {"Overrides": over})]
        checks += [("ec2:RunInstances", resource, {}) for resource in only_run(data)]
        return checks + [pass_role(role) for role in before[profile_in(template)]["roles"]]

    # IAM.

    def of_iam_CreateInstanceProfile(self, _):
        keys = asked_for(tags_of(self.fields["Tags"]))
        resource = arn("iam", f"instance-profile{self.fields['Path']}{self.fields['InstanceProfileName']}", "")
        return [(f"iam:{action}", resource, keys) for action in ("CreateInstanceProfile", "TagInstanceProfile")]

    def of_iam_GetInstanceProfile(self, before):
        return [("iam:GetInstanceProfile", self.profile_arn(before), {})]

    def of_iam_AddRoleToInstanceProfile(self, before):
        return self.of_profile(before) + [pass_role(arn("iam", f"role/{self.fields['RoleName']}", ""))]

    def of_profile(self, before):
        found = before[self.fields["InstanceProfileName"]]
        return [(f"iam:{self.operation}", self.profile_arn(before), own(found["tags"]))]

    of_iam_RemoveRoleFromInstanceProfile = of_iam_DeleteInstanceProfile = of_profile

    def profile_arn(self, before):
        """One that does not exist has no path."""
        name = self.fields["InstanceProfileName"]
        path = before[name]["path"] if name in before else "/"
        return arn("iam", f"instance-profile{path}{name}", "")

    # The others.

    def of_eks_DescribeCluster(self, _):
        return [("eks:DescribeCluster", arn("eks", f"cluster/{self.fields['name']}"), {})]

    def of_arc_zonal_shift_GetManagedResource(self, _):
        return [("arc-zonal-shift:GetManagedResource", "*", {})]

    def of_savingsplans_DescribeSavingsPlans(self, _):
        return [("savingsplans:DescribeSavingsPlans", arn("savingsplans", "savingsplan/*", ""), {})]

    def of_savingsplans_DescribeSavingsPlanRates(self, _):
        plan = self.fields["savingsPlanId"]
        return [("savingsplans:DescribeSavingsPlanRates", arn("savingsplans", f"savingsplan/{plan}", ""), {})]

    def of_ssm_GetParameter(self, _):
        # Those of AWS itself have no account.
        public = self.fields["Name"].startswith("/aws/service/")
        return [("ssm:GetParameter", arn("ssm", f"parameter{self.fields['Name']}", account="" if public else ACCOUNT), {})]

    def of_sqs_GetQueueUrl(self, _):
        return [("sqs:GetQueueUrl", arn("sqs", self.fields["QueueName"]), {})]

    def of_sqs_ReceiveMessage(self, _):
        return [("sqs:ReceiveMessage", self.queue(), {})]

    def of_sqs_DeleteMessageBatch(self, _):
        # A batch has no action of its own.
        return [("sqs:DeleteMessage", self.queue(), {})]

    def queue(self):
        return arn("sqs", self.fields["QueueUrl"].rsplit("/", 1)[1])


def asked_for(tags):
    return {**{f"aws:RequestTag/{key}": value for key, value in tags.items()}, "aws:TagKeys": sorted(tags)}


def own(tags):
    # AWS's own tags are of no use to a condition here, and others each time.
    return {f"aws:ResourceTag/{key}": value for key, value in tags.items() if not key.startswith("aws:")}


def tagged(creates, kinds):
    """The creation of things with tags: itself, and the tags."""
    checks = []
    for kind, tags in kinds.items():
        resource = arn("ec2", f"{kind}/*")
        checks += [(f"ec2:{action}", resource, asked_for(tags)) for action in creates]
        checks += [("ec2:CreateTags", resource, {**asked_for(tags), "ec2:CreateAction": action}) for action in creates]
    return checks


def template_tags(template):
    return by_kind(template["TagSpecification"])["launch-template"]


def profile_in(template):
    return template["LaunchTemplateData"]["IamInstanceProfile"]["Name"]


def made_of(template, config):
    """What both a fleet and its instances are checked against."""
    yield arn("ec2", f"launch-template/{template['LaunchTemplateName']}"), own(template_tags(template))
    for override in listed(config.get("Overrides")):
        yield arn("ec2", f"subnet/{override['SubnetId']}"), {}
    yield arn("ec2", f"image/{template['LaunchTemplateData']['ImageId']}", account=""), {}
    target = template["LaunchTemplateData"].get("CapacityReservationSpecification", {}).get("CapacityReservationTarget")
    if target:
        yield arn("ec2", f"capacity-reservation/{target['CapacityReservationId']}"), {}


def only_run(data):
    groups = {group for one in listed(data["NetworkInterface"]) for group in listed(one["SecurityGroupId"])}
    yield from (arn("ec2", f"security-group/{group}") for group in sorted(groups))
    if group := data.get("Placement", {}).get("GroupId"):
        yield arn("ec2", f"placement-group/{group}")
    # The image's own: nearly all images are made of one.
    yield arn("ec2", f"snapshot/{SNAPSHOT}", account="")


def pass_role(role):
    return ("iam:PassRole", role, {"iam:PassedToService": "ec2.amazonaws.com"})


def profile(upstream, name):
    """An instance profile: path, tags, the ARNs of its roles in our account; none where there is none."""
    iam = client("iam", upstream)
    try:
        found = iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]
    except iam.exceptions.NoSuchEntityException:
        return None
    roles = [arn("iam", f"role{one['Path']}{one['RoleName']}", "") for one in found["Roles"]]
    return {"path": found["Path"], "tags": {tag["Key"]: tag["Value"] for tag in found["Tags"]}, "roles": roles}


def distinct(seen, uid):
    """The checks of requests, each once, with the same text for what is another each time."""
    all_of = {}
    for request, before in seen:
        for action, resource, keys in request.checks(before):
            keys = {key: plain(key, value, uid) for key, value in sorted(keys.items())}
            check = {"operation": request.name(), "action": action, "resource": plain("", resource, uid), "keys": keys}
            all_of[json.dumps(check, sort_keys=True)] = check
    return [all_of[text] for text in sorted(all_of)]


def plain(key, value, uid):
    if isinstance(value, list):
        return value
    named = key.split("/", 1)[-1]
    if named in NAMED:
        return NAMED[named]
    value = value.replace(uid, "UID")
    for pattern, text in OTHERS:
        value = pattern.sub(text, value)
    return value
