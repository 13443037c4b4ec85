"""Tables and arrays of any library, read and validated."""
