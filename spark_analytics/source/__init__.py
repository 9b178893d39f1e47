"""The Spark data source `danube`: planning is pure, reading is Arrow, and nothing is left behind on a broker."""
