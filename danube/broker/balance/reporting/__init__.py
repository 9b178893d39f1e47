"""Load reports: measured by each broker, published, and received with their age."""
