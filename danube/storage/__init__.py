"""Keeping messages: one journal per broker; a log per topic is what the rest of the system sees."""
