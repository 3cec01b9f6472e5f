"""Secrets: what is secret reaches neither disk nor screen."""
