"""Audits: rates and disparities of decisions by group, with uncertainty.

The package is not called ``audit`` because it would hide the function of that name.
"""
