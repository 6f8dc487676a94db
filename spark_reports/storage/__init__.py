"""The store: ingest of run folders, commits, compaction and retention, views for readers."""
