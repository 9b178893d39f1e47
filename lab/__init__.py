"""Experiments that break Danube on purpose. Not shipped."""
