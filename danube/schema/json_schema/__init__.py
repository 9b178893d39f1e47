"""JSON Schema: drafts 7, 2019-09 and 2020-12."""
