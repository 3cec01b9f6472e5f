"""Models: what agents ask. Vendors' packages are imported when the first request is made."""
