"""Judgement on each kind of difference between two Protobuf definitions, by the binary format's rules."""

from typing import Final

from danube.schema.differences import BACKWARD_ONLY, BOTH, FORWARD_ONLY, NEITHER, Rule, Rules

RULES: Final[Rules] = {
    "package_changed": Rule(NEITHER, "the package differs, and with it all full names", "keep the package"),
    "syntax_changed": Rule(
        BOTH, "the syntax or edition differs: presence and unknown enum values may be seen otherwise"
    ),
    "main_message_changed": Rule(NEITHER, "the first message is another one", "keep the first message the first"),
    # Messages and enums
    "message_added": Rule(BOTH, "a message is new"),
    "message_removed": Rule(FORWARD_ONLY, "a message is gone that payloads may be of", "keep the message"),
    "nested_message_removed": Rule(BOTH, "a message inside another is gone"),
    "imported_message_removed": Rule(BOTH, "an imported message is gone: where fields were of it they are compared"),
    "enum_added": Rule(BOTH, "an enum is new"),
    "enum_removed": Rule(BOTH, "an enum is gone"),
    "enum_value_added": Rule(BOTH, "a value is new: readers that do not know it see its number, or an absent field"),
    "enum_value_removed": Rule(BOTH, "a value is gone: readers see its number, or an absent field; reserve the number"),
    "enum_value_renamed": Rule(BOTH, "a value has another name"),
    "enum_value_renumbered": Rule(NEITHER, "a name stands for another number", "keep the number of each name"),
    # Fields
    "field_added": Rule(BOTH, "a field is new"),
    "field_removed": Rule(BOTH, "a field is gone: reserve its number, so that it never means something else"),
    "field_renamed": Rule(BOTH, "a field has another name, which is not in the bytes"),
    "field_renumbered": Rule(
        NEITHER, "a name stands for another number", "keep the number, and give new fields new ones"
    ),
    "reserved_number_used": Rule(
        NEITHER, "a field uses a number that was reserved", "use a number that was never used"
    ),
    "reserved_removed": Rule(BOTH, "a number or name is not reserved any more"),
    "required_field_added": Rule(FORWARD_ONLY, "a required field is new", "make it optional"),
    "required_field_removed": Rule(BACKWARD_ONLY, "a required field is gone", "keep the field"),
    "field_became_required": Rule(FORWARD_ONLY, "a field has to be there", "leave it optional"),
    "field_became_optional": Rule(BACKWARD_ONLY, "a required field may be absent", "keep it required"),
    "presence_changed": Rule(BOTH, "an absent field is told from a default, or not any more"),
    "default_changed": Rule(BOTH, "readers see another value for an absent field"),
    "type_changed": Rule(
        NEITHER, "the type has another form in bytes", "keep the type, and add a field for the new one"
    ),
    "type_changed_in_group": Rule(BOTH, "the types have one form in bytes: numbers out of range are cut"),
    "required_enum_extended": Rule(
        BACKWARD_ONLY, "readers take a value of a closed enum that they do not know for an absent field", "leave it out"
    ),
    "required_enum_narrowed": Rule(
        FORWARD_ONLY,
        "readers take a value of a closed enum that they do not know for an absent field",
        "keep the value",
    ),
    "required_enum_changed": Rule(
        NEITHER, "readers take a value of a closed enum that they do not know for an absent field", "keep the values"
    ),
    "string_became_bytes": Rule(BACKWARD_ONLY, "bytes need not be text", "keep string"),
    "bytes_became_string": Rule(FORWARD_ONLY, "text has to be UTF-8, and bytes need not be", "keep bytes"),
    "message_became_bytes": Rule(BACKWARD_ONLY, "bytes need not be the message", "keep the message"),
    "bytes_became_message": Rule(FORWARD_ONLY, "bytes have to be the message", "keep bytes"),
    "message_type_renamed": Rule(BOTH, "the message of the field has another name: its fields are compared"),
    "enum_type_renamed": Rule(BOTH, "the enum of the field has another name: its values are compared"),
    "field_became_repeated": Rule(BOTH, "readers of one value see the last one"),
    "field_became_singular": Rule(BOTH, "readers of one value see the last one"),
    "number_became_repeated": Rule(
        BACKWARD_ONLY, "packed numbers are no single number", "keep it singular, or add a repeated field"
    ),
    "number_became_singular": Rule(FORWARD_ONLY, "packed numbers are no single number", "keep it repeated"),
    # oneof
    "field_moved_to_new_oneof": Rule(BOTH, "one field is in a oneof of its own"),
    "field_moved_to_oneof": Rule(
        FORWARD_ONLY, "a oneof keeps one of the fields that data may have", "leave it outside"
    ),
    "field_moved_out_of_oneof": Rule(
        BACKWARD_ONLY, "data may have several of the fields that earlier readers keep one of", "leave it in the oneof"
    ),
    "field_moved_between_oneofs": Rule(NEITHER, "a field is in another oneof", "leave it in its oneof"),
    "too_complex": Rule(NEITHER, "the versions differ in more than can be compared", "split the definition"),
}
