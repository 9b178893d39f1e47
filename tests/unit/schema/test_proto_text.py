"""The text that is written from a descriptor compiles to the same descriptor: nothing that people wrote is lost."""

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from danube.schema.protobuf.proto_text import proto_text
from tests.unit.schema.compiling import compile_here

IMPORTED = {
    "shop/money.proto": 'syntax = "proto3"; package shop; message Money { int64 cents = 1; }',
    "shop/all.proto": 'syntax = "proto3"; package shop; import public "shop/money.proto";',
}
ORDERS = r"""
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import public "shop/all.proto";
import "google/protobuf/descriptor.proto";
option java_package = "org.shop";
option java_outer_classname = "Orders\"\\Proto";
option java_multiple_files = true;
option optimize_for = CODE_SIZE;
option cc_enable_arenas = false;
option go_package = "shop/orders;orders";
extend google.protobuf.FieldOptions { string note = 50001; }
enum State {
  option allow_alias = true;
  option deprecated = true;
  NEW = 0; OPEN = 0; DONE = 1 [deprecated = true];
  reserved 5, 7 to 9; reserved "GONE";
}
message Order {
  option deprecated = true;
  message Line { string sku = 1; optional int32 count = 2; }
  repeated Line lines = 1;
  map<string, Money> prices = 2;
  oneof paid { Money cash = 3; string card = 4 [json_name = "plastic"]; }
  repeated int32 packed_off = 5 [packed = false, deprecated = true];
  int64 large = 6 [jstype = JS_STRING];
  google.protobuf.Timestamp at_time = 7;
  extend google.protobuf.MessageOptions { Line line = 50002; }
  reserved 10 to 12, 14; reserved "old";
}
service Shop {
  option deprecated = true;
  rpc Place (Order) returns (stream Order) { option idempotency_level = IDEMPOTENT; option deprecated = true; }
  rpc Watch (stream Order) returns (Order);
}
"""
OLD = r"""
syntax = "proto2";
package shop;
option java_generic_services = true;
message Old {
  required string name = 1 [default = "a\"b\\c\n\001ä"];
  optional bytes raw = 2 [default = "\001\"\377"];
  optional double rate = 3 [default = inf];
  optional bool is_new = 4 [default = true, lazy = false];
  repeated int32 many = 5 [packed = true];
  extensions 100 to 199, 1000 to max;
}
extend Old { optional string more = 100; repeated int32 most = 101; }
"""


def compiled(text: str) -> FileDescriptorProto:
    files = FileDescriptorSet.FromString(compile_here("orders.proto", {**IMPORTED, "orders.proto": text}))
    return files.file[-1]


def test_a_file_of_proto3_keeps_its_options_services_and_extensions() -> None:
    file = compiled(ORDERS)
    assert compiled(proto_text(file.SerializeToString())) == file


def test_a_file_of_proto2_keeps_its_defaults_and_extensions() -> None:
    file = compiled(OLD)
    assert compiled(proto_text(file.SerializeToString())) == file
