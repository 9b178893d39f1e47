"""Differences between two Protobuf definitions: descriptors side by side, numbers before names. No policy."""

from typing import Any, Final

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, FileDescriptor

from danube.model.limits.schema import SCHEMA_COMPARISONS_MAX, SCHEMA_DIFFERENCES_MAX
from danube.schema.differences import Difference
from danube.schema.parsed import shown
from danube.schema.protobuf.document import WELL_KNOWN, ProtobufDocument
from danube.schema.protobuf.oneofs import compare_oneofs, is_alternative

Found = list[Difference]
_MESSAGES: Final = (FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_GROUP)
_TEXT: Final = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)
_WORDS: Final = {
    number: name.removeprefix("TYPE_").lower()
    for name, number in vars(FieldDescriptor).items()
    if name.startswith("TYPE_")
}
_GROUPS: Final = (
    frozenset({"int32", "int64", "uint32", "uint64", "bool", "enum"}),
    frozenset({"sint32", "sint64"}),
    frozenset({"fixed32", "sfixed32"}),
    frozenset({"fixed64", "sfixed64"}),
)
"""Types with one form in bytes."""


class ProtobufComparison:
    """One comparison of two definitions."""

    def __init__(self, old: ProtobufDocument, new: ProtobufDocument) -> None:
        self._old = old
        self._new = new
        self._steps = 0
        self._compared: set[tuple[str, str]] = set()

    def run(self) -> Found:
        """All differences."""
        try:
            return self._run()
        except RecursionError:
            return [Difference("too_complex", "")]

    def _run(self) -> Found:
        old, new = self._old.root, self._new.root
        if old.package != new.package:
            return [Difference("package_changed", "package", old.package, new.package)]
        found = self._compare_syntax()
        before, after = (_declared(document) for document in (self._old, self._new))
        main = [next((name.full_name for name in file.message_types_by_name.values()), "") for file in (old, new)]
        if all(main) and main[0] != main[1]:
            found.append(Difference("main_message_changed", main[1], *main))
        for name in dict.fromkeys([*before, *after]):
            if name in before and name in after and type(before[name]) is type(after[name]):
                found += self._compare_types(before[name], after[name], name)
                continue
            if name in before:
                found.append(Difference(_gone(before[name], old), name, before=name))
            if name in after:
                kind = "message_added" if isinstance(after[name], Descriptor) else "enum_added"
                found.append(Difference(kind, name, after=name))
            if self._steps > SCHEMA_COMPARISONS_MAX:
                return [Difference("too_complex", name)]
        return found[:SCHEMA_DIFFERENCES_MAX]

    def _compare_syntax(self) -> Found:
        before, after = (_syntax(document.files[-1]) for document in (self._old, self._new))
        return [] if before == after else [Difference("syntax_changed", "syntax", before, after)]

    def _compare_types(self, old: Any, new: Any, path: str) -> Found:  # noqa: ANN401 - two of one class
        """Differences of two messages or enums, each pair once."""
        key = old.full_name, new.full_name
        self._steps += 1
        if key in self._compared or self._steps > SCHEMA_COMPARISONS_MAX:
            return []
        self._compared.add(key)
        return (
            _compare_enums(old, new, path) if isinstance(old, EnumDescriptor) else self._compare_fields(old, new, path)
        )

    def _compare_fields(self, old: Descriptor, new: Descriptor, path: str) -> Found:
        before, after = ({field.number: field for field in message.fields} for message in (old, new))
        numbers = [{field.name: number for number, field in side.items()} for side in (before, after)]
        reserved = [_reserved(message) for message in (old, new)]
        found: Found = []
        for number in sorted(before.keys() | after.keys()):
            one, two = before.get(number), after.get(number)
            field = two if two is not None else one
            place = f"{path}.{field.name if field is not None else number}"
            if one is not None and two is not None:
                if one.name != two.name:
                    moved = numbers[1].get(one.name) is not None or numbers[0].get(two.name) is not None
                    kind = "field_renumbered" if moved else "field_renamed"
                    found.append(Difference(kind, place, f"{one.name} = {number}", f"{two.name} = {number}"))
                found += self._compare_field(one, two, place)
            elif two is not None:
                found += _added(two, numbers[0].get(two.name), place, is_reserved=_covers(reserved[0], number))
            elif one is not None and one.name not in numbers[1]:
                kind = "required_field_removed" if one.is_required else "field_removed"
                found.append(Difference(kind, place, before=f"{one.name} = {number}"))
        found += compare_oneofs(old, new, path)
        if not reserved[0] <= reserved[1] and not all(_covers(reserved[1], low, high) for low, high in reserved[0]):
            found.append(Difference("reserved_removed", path))
        return found

    def _compare_field(self, old: FieldDescriptor, new: FieldDescriptor, place: str) -> Found:
        found = self._compare_kinds(old, new, place) + _compare_required_enums(old, new, place)
        if old.is_repeated != new.is_repeated:
            scalar = old.type not in (*_MESSAGES, *_TEXT) and new.type not in (*_MESSAGES, *_TEXT)
            word = "number" if scalar else "field"
            kind = f"{word}_became_repeated" if new.is_repeated else f"{word}_became_singular"
            found.append(Difference(kind, place, _word(old), _word(new)))
        if old.is_required != new.is_required:
            kind = "field_became_required" if new.is_required else "field_became_optional"
            found.append(Difference(kind, place))
        elif not found and old.has_presence != new.has_presence and not (is_alternative(old) or is_alternative(new)):
            found.append(Difference("presence_changed", place))
        if not found and not old.is_repeated and old.type not in _MESSAGES and old.default_value != new.default_value:
            before, after = shown(repr(old.default_value)), shown(repr(new.default_value))
            found.append(Difference("default_changed", place, before, after))
        return found

    def _compare_kinds(self, old: FieldDescriptor, new: FieldDescriptor, place: str) -> Found:
        one, two = _WORDS[old.type], _WORDS[new.type]
        if one != two:
            return [Difference(_changed(one, two), place, _word(old), _word(new))]
        if old.message_type is not None and new.message_type is not None:
            return self._compare_named(old.message_type, new.message_type, place, "message_type_renamed")
        if old.enum_type is not None and new.enum_type is not None:
            return self._compare_named(old.enum_type, new.enum_type, place, "enum_type_renamed")
        return []

    def _compare_named(self, old: Any, new: Any, place: str, kind: str) -> Found:  # noqa: ANN401 - two of one class
        """Types of one name are compared where they are declared; others are compared here."""
        if old.full_name == new.full_name and not (kind == "message_type_renamed" and _is_entry(new)):
            return []
        renamed = old.full_name != new.full_name and not (_is_entry(old) and _is_entry(new))
        found = [Difference(kind, place, old.full_name, new.full_name)] if renamed else []
        return found + self._compare_types(old, new, place)


def _compare_required_enums(old: FieldDescriptor, new: FieldDescriptor, place: str) -> Found:
    """A closed enum puts values that it does not know aside: a required field is absent then."""
    if not (old.is_required or new.is_required):
        return []
    before, after = _closed_values(old), _closed_values(new)
    if before == after:
        return []
    if before is None or (after is not None and after < before):
        return [Difference("required_enum_narrowed", place)]
    if after is None or before < after:
        return [Difference("required_enum_extended", place)]
    return [Difference("required_enum_changed", place)]


def _closed_values(field: FieldDescriptor) -> frozenset[int] | None:
    """Numbers that a closed enum knows; None where any number is accepted."""
    enum = field.enum_type
    return frozenset(value.number for value in enum.values) if enum is not None and enum.is_closed else None


def _declared(document: ProtobufDocument) -> dict[str, Any]:
    """Messages and enums of the definition and its imports by full name, without entries of maps."""
    found: dict[str, Any] = {}
    for file in reversed(document.files):
        descriptor = document.pool.FindFileByName(file.name)
        todo = [*descriptor.message_types_by_name.values()]
        found |= {each.full_name: each for each in descriptor.enum_types_by_name.values()}
        while todo:
            message = todo.pop(0)
            if not _is_entry(message) and not file.name.startswith(WELL_KNOWN):
                found[message.full_name] = message
                found |= {each.full_name: each for each in message.enum_types}
                todo.extend(message.nested_types)
    return found


def _is_entry(message: Any) -> bool:  # noqa: ANN401 - a descriptor
    return isinstance(message, Descriptor) and bool(message.GetOptions().map_entry)


def _gone(descriptor: Any, root: FileDescriptor) -> str:  # noqa: ANN401 - a descriptor
    if isinstance(descriptor, EnumDescriptor):
        return "enum_removed"
    if descriptor.file.name != root.name:
        return "imported_message_removed"
    return "message_removed" if descriptor.containing_type is None else "nested_message_removed"


def _syntax(file: descriptor_pb2.FileDescriptorProto) -> str:
    return f"edition {file.edition}" if file.syntax == "editions" else file.syntax or "proto2"


def _added(field: FieldDescriptor, former: int | None, place: str, *, is_reserved: bool) -> Found:
    if former is not None:
        return [Difference("field_renumbered", place, f"{field.name} = {former}", f"{field.name} = {field.number}")]
    kind = "reserved_number_used" if is_reserved else "required_field_added" if field.is_required else "field_added"
    return [Difference(kind, place, after=f"{field.name} = {field.number}")]


def _reserved(message: Descriptor) -> frozenset[tuple[int, int]]:
    proto = descriptor_pb2.DescriptorProto()
    message.CopyToProto(proto)
    return frozenset((each.start, each.end) for each in proto.reserved_range)


def _covers(ranges: frozenset[tuple[int, int]], low: int, high: int | None = None) -> bool:
    return any(start <= low and (low + 1 if high is None else high) <= end for start, end in ranges)


def _word(field: FieldDescriptor) -> str:
    named = field.message_type or field.enum_type
    word = named.full_name if named is not None else _WORDS[field.type]
    return f"repeated {word}" if field.is_repeated else word


def _changed(one: str, two: str) -> str:
    if any({one, two} <= group for group in _GROUPS):
        return "type_changed_in_group"
    named = f"{one}_became_{two}"
    return named if named in _DIRECTED else "type_changed"


_DIRECTED: Final = ("string_became_bytes", "bytes_became_string", "message_became_bytes", "bytes_became_message")


def _compare_enums(old: EnumDescriptor, new: EnumDescriptor, path: str) -> Found:
    before, after = ({value.number: value.name for value in reversed(enum.values)} for enum in (old, new))
    names = [{value.name: value.number for value in enum.values} for enum in (old, new)]
    found: Found = []
    for name in names[0].keys() & names[1].keys():
        if names[0][name] != names[1][name]:
            found.append(
                Difference("enum_value_renumbered", f"{path}.{name}", str(names[0][name]), str(names[1][name]))
            )
    for number in sorted(before.keys() | after.keys()):
        one, two = before.get(number), after.get(number)
        if one is None and two not in names[0]:
            found.append(Difference("enum_value_added", path, after=f"{two} = {number}"))
        elif two is None and one not in names[1]:
            found.append(Difference("enum_value_removed", path, before=f"{one} = {number}"))
        elif one is not None and two is not None and one not in names[1] and two not in names[0]:
            found.append(Difference("enum_value_renamed", path, f"{one} = {number}", f"{two} = {number}"))
    return found
