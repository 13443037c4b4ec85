"""From posteriors and a requirement to the optimal rule, with its certificate."""
