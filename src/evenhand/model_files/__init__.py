"""Fitted models in files: no code in them, and everything is checked before it is used."""
