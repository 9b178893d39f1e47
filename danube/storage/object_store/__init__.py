"""A broker's storage in an object store: journals as numbered objects, segments and manifests as objects."""
