"""The only place that knows protobuf: the contract, its generated classes, model <-> protobuf, error <-> status."""
