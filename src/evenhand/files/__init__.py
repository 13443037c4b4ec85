"""Fitted models in files that hold no code; everything is checked before it is used."""
