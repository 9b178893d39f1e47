"""Differences in the oneofs of Protobuf messages; their names are not in the bytes, so their fields decide."""

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from danube.schema.differences import Difference


def compare_oneofs(old: Descriptor, new: Descriptor, path: str) -> list[Difference]:
    """Fields of both versions that went into a oneof, out of one, or to another one."""
    before, after = _members(old), _members(new)
    shared = {field.number for field in old.fields} & {field.number for field in new.fields}
    found = []
    for number in sorted(shared):
        one, two = before.get(number), after.get(number)
        place = f"{path}.{new.fields_by_number[number].name}"
        if one is None and two is not None:
            alone = two & shared == {number}
            kind = "field_moved_to_new_oneof" if alone else "field_moved_to_oneof"
            found.append(Difference(kind, place))
        elif one is not None and two is None:
            if one & shared != {number}:
                found.append(Difference("field_moved_out_of_oneof", place))
        elif one is not None and two is not None and one & shared != two & shared:
            split = two & shared < one & shared
            joined = one & shared < two & shared
            kind = (
                "field_moved_out_of_oneof"
                if split
                else "field_moved_to_oneof"
                if joined
                else "field_moved_between_oneofs"
            )
            found.append(Difference(kind, place))
    return found


def is_alternative(field: FieldDescriptor) -> bool:
    """True for a field of a oneof that the definition has; `optional` makes one of its own."""
    oneof = field.containing_oneof
    return oneof is not None and not (len(oneof.fields) == 1 and oneof.name == f"_{field.name}")


def _members(message: Descriptor) -> dict[int, frozenset[int]]:
    """Numbers of all fields of its oneof, for each field in one; those of `optional` are none."""
    found: dict[int, frozenset[int]] = {}
    for oneof in message.oneofs:
        fields: list[FieldDescriptor] = list(oneof.fields)
        if not is_alternative(fields[0]):
            continue
        found |= dict.fromkeys((field.number for field in fields), frozenset(field.number for field in fields))
    return found
