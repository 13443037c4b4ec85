"""What predictions do to groups, with uncertainty.

The room is not called ``audit``, because it would then hide the function of that name.
"""
