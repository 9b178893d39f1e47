"""The jobs: what Spark computes from what brokers tell. Each takes DataFrames and answers DataFrames."""
