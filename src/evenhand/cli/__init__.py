"""The command line, for people who have files and not notebooks."""
