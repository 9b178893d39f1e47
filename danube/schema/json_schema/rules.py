"""Judgement on each kind of difference between two JSON Schemas, as a table, for each policy."""

from typing import Final

from danube.model.schema import JsonPolicy
from danube.schema.differences import BACKWARD_ONLY, BOTH, FORWARD_ONLY, NEITHER, Rule, Rules

_KEEP: Final = "keep it as it was, or give the new form a new property"
STRICT: Final[Rules] = {
    # The whole value
    "schema_closed": Rule(FORWARD_ONLY, "nothing is accepted here any more", "accept what was accepted"),
    "schema_opened": Rule(BACKWARD_ONLY, "something is accepted where nothing was", "leave it refused"),
    "type_extended": Rule(BACKWARD_ONLY, "more types are accepted", "accept the former types alone"),
    "type_narrowed": Rule(FORWARD_ONLY, "fewer types are accepted", "accept the former types, too"),
    "type_changed": Rule(
        NEITHER, "other types are accepted", "keep the former type; put the new one in a new property"
    ),
    "enum_extended": Rule(BACKWARD_ONLY, "more values are accepted", "leave the new values out"),
    "enum_narrowed": Rule(FORWARD_ONLY, "fewer values are accepted", "keep the former values"),
    "enum_changed": Rule(
        NEITHER, "values came and went", "keep the former values, and add new ones in a later version"
    ),
    "enum_added": Rule(FORWARD_ONLY, "listed values alone are accepted", "leave the enum or const out"),
    "enum_removed": Rule(BACKWARD_ONLY, "any value is accepted where values were listed", "keep the enum or const"),
    "format_changed": Rule(BOTH, "the format is an annotation, which refuses nothing"),
    "content_added": Rule(FORWARD_ONLY, "a content encoding or type is asked for", "leave it out"),
    "content_removed": Rule(BACKWARD_ONLY, "no content encoding or type is asked for any more", "keep it"),
    "content_changed": Rule(NEITHER, "another content encoding or type is asked for", _KEEP),
    # Strings and numbers
    "minimum_raised": Rule(FORWARD_ONLY, "the lower bound is higher", "keep the former lower bound, or a lower one"),
    "minimum_lowered": Rule(BACKWARD_ONLY, "the lower bound is lower", "keep the former lower bound"),
    "maximum_lowered": Rule(FORWARD_ONLY, "the upper bound is lower", "keep the former upper bound, or a higher one"),
    "maximum_raised": Rule(BACKWARD_ONLY, "the upper bound is higher", "keep the former upper bound"),
    "multiple_of_narrowed": Rule(FORWARD_ONLY, "fewer multiples are accepted", "keep the former multipleOf"),
    "multiple_of_extended": Rule(BACKWARD_ONLY, "more multiples are accepted", "keep the former multipleOf"),
    "multiple_of_changed": Rule(NEITHER, "other multiples are accepted", "keep the former multipleOf"),
    "pattern_added": Rule(FORWARD_ONLY, "a pattern is asked for", "leave the pattern out"),
    "pattern_removed": Rule(BACKWARD_ONLY, "no pattern is asked for any more", "keep the pattern"),
    "pattern_changed": Rule(NEITHER, "another pattern is asked for", "keep the former pattern"),
    # Arrays
    "item_added_to_open_content_model": Rule(
        FORWARD_ONLY, "an item is described where any was accepted", "leave it undescribed"
    ),
    "item_added_to_closed_content_model": Rule(BACKWARD_ONLY, "one more item is accepted", "leave it out"),
    "item_removed_from_open_content_model": Rule(BACKWARD_ONLY, "any item is accepted here", "keep its description"),
    "item_removed_from_closed_content_model": Rule(FORWARD_ONLY, "an item is not accepted any more", "keep it"),
    "items_closed": Rule(FORWARD_ONLY, "further items are not accepted any more", "accept further items"),
    "items_opened": Rule(BACKWARD_ONLY, "further items are accepted", "keep further items refused"),
    "unique_items_added": Rule(FORWARD_ONLY, "items have to differ", "leave uniqueItems out"),
    "unique_items_removed": Rule(BACKWARD_ONLY, "items may be equal", "keep uniqueItems"),
    "contains_added": Rule(FORWARD_ONLY, "some item has to be of a kind", "leave contains out"),
    "contains_removed": Rule(BACKWARD_ONLY, "no item has to be of a kind any more", "keep contains"),
    "contains_changed": Rule(NEITHER, "items have to be of another kind, or in another number", "keep contains"),
    # Objects
    "property_added_to_open_content_model": Rule(
        FORWARD_ONLY,
        "a property is described where data may hold anything by that name",
        "close the earlier version with additionalProperties false, or judge by the policy optional_friendly",
    ),
    "property_added_to_closed_content_model": Rule(
        BACKWARD_ONLY,
        "a property is accepted that the earlier version refuses",
        "leave it out, or judge by the policy optional_friendly",
    ),
    "property_added_to_partially_open_content_model": Rule(
        BOTH, "a property is described that a pattern or a schema for others described before"
    ),
    "property_removed_from_open_content_model": Rule(
        BACKWARD_ONLY,
        "data may hold anything by the name of a property that was described",
        "keep the property, or judge by the policy optional_friendly",
    ),
    "property_removed_from_closed_content_model": Rule(
        FORWARD_ONLY,
        "a property is refused that the earlier version accepts",
        "keep the property, or judge by the policy optional_friendly",
    ),
    "property_removed_from_partially_open_content_model": Rule(
        BOTH, "a pattern or a schema for others describes a property that was described by itself"
    ),
    "required_property_added": Rule(
        FORWARD_ONLY, "a new property is required", "give it a default, or leave it optional"
    ),
    "required_property_with_default_added": Rule(BOTH, "a new property is required, and readers know its default"),
    "required_property_removed": Rule(
        BACKWARD_ONLY, "a property that was required is gone", "keep it, or give it a default one version before"
    ),
    "required_property_with_default_removed": Rule(
        BOTH, "a property that was required is gone, and earlier readers know its default"
    ),
    "property_became_required": Rule(
        FORWARD_ONLY, "a property has to be there", "leave it optional, or give it a default"
    ),
    "property_with_default_became_required": Rule(BOTH, "a property has to be there, and readers know its default"),
    "property_became_optional": Rule(BACKWARD_ONLY, "a property may be absent", "keep it required"),
    "property_with_default_became_optional": Rule(
        BOTH, "a property may be absent, and earlier readers know its default"
    ),
    "content_model_closed": Rule(FORWARD_ONLY, "other properties are refused", "keep other properties accepted"),
    "content_model_opened": Rule(BACKWARD_ONLY, "other properties are accepted", "keep other properties refused"),
    "pattern_property_added": Rule(
        FORWARD_ONLY, "properties that match a pattern are described", "leave the pattern out"
    ),
    "pattern_property_added_to_closed_content_model": Rule(
        BACKWARD_ONLY, "properties that match a pattern are accepted", "leave the pattern out"
    ),
    "pattern_property_removed": Rule(BACKWARD_ONLY, "properties that match a pattern are free", "keep the pattern"),
    "pattern_property_removed_from_closed_content_model": Rule(
        FORWARD_ONLY, "properties that match a pattern are refused", "keep the pattern"
    ),
    "pattern_property_changed": Rule(
        NEITHER, "properties that match a pattern are described anew", "keep the former patterns"
    ),
    "dependency_added": Rule(FORWARD_ONLY, "a property asks for others", "leave the dependency out"),
    "dependency_removed": Rule(BACKWARD_ONLY, "a property asks for fewer others", "keep the dependency"),
    "property_names_added": Rule(FORWARD_ONLY, "names of properties are restricted", "leave propertyNames out"),
    "property_names_removed": Rule(BACKWARD_ONLY, "names of properties are free", "keep propertyNames"),
    "unevaluated_changed": Rule(
        NEITHER, "what unevaluatedProperties or unevaluatedItems covers may differ", "keep all of this part as it was"
    ),
    # Combinations
    "any_of_extended": Rule(BACKWARD_ONLY, "more alternatives are accepted", "leave the new alternatives out"),
    "any_of_narrowed": Rule(FORWARD_ONLY, "fewer alternatives are accepted", "keep the former alternatives"),
    "any_of_changed": Rule(NEITHER, "alternatives came and went", "keep the former alternatives, and add new ones"),
    "one_of_may_overlap": Rule(
        NEITHER,
        "a document may match two alternatives of oneOf, which then refuses it",
        "give each alternative a required property with a const of its own, or use anyOf",
    ),
    "all_of_added": Rule(FORWARD_ONLY, "more has to hold at once", "leave the new part of allOf out"),
    "all_of_removed": Rule(BACKWARD_ONLY, "less has to hold at once", "keep the part of allOf"),
    "all_of_changed": Rule(NEITHER, "other parts have to hold at once", "keep the former parts of allOf"),
    "not_narrowed": Rule(BACKWARD_ONLY, "less is excluded", "keep the exclusion"),
    "not_extended": Rule(FORWARD_ONLY, "more is excluded", "exclude no more than before"),
    "not_changed": Rule(NEITHER, "something else is excluded", "keep the exclusion as it was"),
    "condition_added": Rule(FORWARD_ONLY, "a condition has to hold", "leave if, then and else out"),
    "condition_removed": Rule(BACKWARD_ONLY, "a condition need not hold any more", "keep if, then and else"),
    "condition_changed": Rule(NEITHER, "the condition differs", "keep `if` as it was"),
    "dynamic_reference_changed": Rule(
        NEITHER, "a dynamic reference may mean something else", "refer with $ref, or keep the definition as it was"
    ),
    "too_complex": Rule(NEITHER, "the versions differ in more than can be compared", "split the schema"),
}
"""Compatible means: each document that one version accepts, the other reads, with defaults for what is absent."""

OPTIONAL_FRIENDLY: Final[Rules] = {
    **STRICT,
    **{
        kind: Rule(BOTH, STRICT[kind].says)
        for kind in (
            "property_added_to_open_content_model",
            "property_added_to_closed_content_model",
            "property_removed_from_open_content_model",
            "property_removed_from_closed_content_model",
            "content_model_closed",
            "content_model_opened",
        )
    },
}
"""The same, where producers write declared properties alone and consumers ignore all others."""

CAUTIOUS: Final[Rules] = {
    **OPTIONAL_FRIENDLY,
    "required_property_added": Rule(NEITHER, "a new property is required", "leave it optional, or give it a default"),
    "required_property_removed": Rule(NEITHER, "a property that was required is gone", "keep it"),
}
"""The same, where readers and writers of all versions count on required properties."""

_COMPARED: Final = ("type_", "required_", "property_became_", "schema_", "too_complex")
ORIGINAL: Final[Rules] = {
    kind: rule if kind.startswith(_COMPARED) else Rule(BOTH, rule.says) for kind, rule in CAUTIOUS.items()
}
"""Comparison of the original at every level: types, and required properties."""

RULES: Final = {
    JsonPolicy.STRICT: STRICT,
    JsonPolicy.OPTIONAL_FRIENDLY: OPTIONAL_FRIENDLY,
    JsonPolicy.CAUTIOUS: CAUTIOUS,
    JsonPolicy.ORIGINAL: ORIGINAL,
}
