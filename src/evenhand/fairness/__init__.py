"""What is asked for and how it is measured: groups, rates, notions of fairness."""
