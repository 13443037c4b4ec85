"""The command line: audit, frontier, fit, predict, verify and demo, from CSV and Parquet files."""
