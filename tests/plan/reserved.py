"""Capacity reservations: PL-50, no more instances of one than it has left, whichever of those that a claim allows it gets.

A reservation is what offerings of capacity type `reserved` name by the same id; it has the least `reservationCapacity` that any
of them says, and without one no end. A claim may count against several.
"""

ID = "karpenter.k8s.aws/capacity-reservation-id"


def of(offering):
    """The id of an offering's reservation; None for what is bought."""
    if offering.capacity_type != "reserved":
        return None
    own = offering.labels.get(ID)
    return min(own.vals) if own and own.vals and not own.comp else None


def left(catalogue, claims):
    """What is left of each bounded reservation by id, negative where the claims ask for more than there is."""
    room = {}
    for kind in catalogue.types.values():
        for offering in kind.offerings:
            if of(offering) and offering.reserved is not None:
                room[of(offering)] = min(room.get(of(offering), offering.reserved), offering.reserved)
    for claim in claims:
        for name in {of(o) for k in claim.shape.kinds for o in claim.shape.view.nodes(k)} & set(room):
            room[name] -= 1
    return room


def check(report, catalogue, claims):
    """Adds the reservations that are overdrawn, and the claims that may be reserved or something else."""
    for name, count in left(catalogue, claims).items():
        report.expect(count >= 0, "PL-50", name, f"{-count} more instances than the reservation has")
    for claim in claims:
        kinds = {o.capacity_type for k in claim.shape.kinds for o in claim.shape.view.nodes(k)}
        report.expect("reserved" not in kinds or len(kinds) == 1, "PL-50", claim.name, "reserved, or what is bought")


def open_to(offering, room):
    """Whether a further node may be of the offering."""
    return room.get(of(offering), 1) > 0
