"""SQL over topics, by DuckDB: each topic is a table, and a query reads only the slices that it can need."""
