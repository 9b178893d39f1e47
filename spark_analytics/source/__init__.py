"""The Spark data source `danube`, over topics as tables of Arrow."""
