"""Judgement on each kind of difference between two Avro definitions, by the specification's schema resolution."""

from typing import Final

from danube.schema.differences import BACKWARD_ONLY, BOTH, FORWARD_ONLY, NEITHER, Rule, Rules

RULES: Final[Rules] = {
    "type_changed": Rule(NEITHER, "the type differs", "keep the type, or add a field with a default for the new one"),
    "type_promoted": Rule(BACKWARD_ONLY, "the type is wider", "keep the type"),
    "type_demoted": Rule(FORWARD_ONLY, "the type is narrower", "keep the type"),
    "string_bytes_changed": Rule(BOTH, "string and bytes have the same form"),
    "logical_type_added": Rule(BOTH, "readers see the same bytes as a logical type"),
    "logical_type_removed": Rule(BOTH, "readers see the plain type under the logical one"),
    "logical_type_changed": Rule(
        NEITHER, "the same bytes mean other values", "keep the logical type, or add a field for the new one"
    ),
    "name_changed": Rule(NEITHER, "the name differs", "keep the name, or give the new one the former as an alias"),
    "name_changed_with_alias": Rule(BACKWARD_ONLY, "the name differs, and the former is an alias", "keep the name"),
    "name_changed_to_alias": Rule(FORWARD_ONLY, "the name is an alias of the earlier version", "keep the name"),
    "name_exchanged_with_alias": Rule(BOTH, "each name is an alias of the other"),
    "namespace_changed": Rule(BOTH, "the namespace differs, and resolution ignores it"),
    "size_changed": Rule(NEITHER, "the size of a fixed differs", "keep the size, or define a fixed of another name"),
    "symbol_added": Rule(BACKWARD_ONLY, "a symbol is new", "give the enum a default one version before"),
    "symbol_added_with_default": Rule(BOTH, "a symbol is new, and the earlier version has a default for it"),
    "symbol_removed": Rule(FORWARD_ONLY, "a symbol is gone", "keep the symbol, or give the enum a default"),
    "symbol_removed_with_default": Rule(BOTH, "a symbol is gone, and the new version has a default for it"),
    "branch_added": Rule(BACKWARD_ONLY, "the union has a further branch", "leave the branch out"),
    "branch_added_covered": Rule(BOTH, "the union has a further branch that the earlier version reads as another"),
    "branch_removed": Rule(FORWARD_ONLY, "a branch of the union is gone", "keep the branch"),
    "branch_removed_covered": Rule(BOTH, "a branch of the union is gone, and another one reads it"),
    "field_added": Rule(FORWARD_ONLY, "a field without a default is new", "give the field a default"),
    "field_added_with_default": Rule(BOTH, "a field with a default is new"),
    "field_renamed_with_alias": Rule(BOTH, "a field has a new name, and the former as an alias"),
    "field_renamed_and_changed": Rule(
        FORWARD_ONLY, "a field has a new name, and a type that does not read the former", "keep the type"
    ),
    "field_removed": Rule(
        BACKWARD_ONLY,
        "a field is gone that earlier readers need",
        "keep the field, or give it a default one version before",
    ),
    "field_removed_with_default": Rule(BOTH, "a field is gone, and earlier readers have its default"),
    "field_renamed_from_alias": Rule(BOTH, "a field has a name that earlier readers know as an alias"),
    "field_renamed_from_alias_and_changed": Rule(
        BACKWARD_ONLY, "a field has a name that earlier readers know, and a type that they do not", "keep the type"
    ),
    "alias_ambiguous": Rule(
        FORWARD_ONLY,
        "an alias names another field of the earlier version, which is there by its own name",
        "drop the alias",
    ),
    "earlier_alias_ambiguous": Rule(
        BACKWARD_ONLY, "a field has a name that is an alias of another field in the earlier version", "use another name"
    ),
    "default_added": Rule(BOTH, "a default is new"),
    "default_removed": Rule(BOTH, "a default is gone: the field cannot be added by later readers of data without it"),
    "default_changed": Rule(BOTH, "the default differs: readers of older data see the new one"),
    "too_complex": Rule(NEITHER, "the versions differ in more than can be compared", "split the schema"),
}
