"""Where the rows of a fit are: in files, or on a cluster."""
