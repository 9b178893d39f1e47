"""Values of applications as payloads: pydantic models, dataclasses, Avro and Protobuf."""
