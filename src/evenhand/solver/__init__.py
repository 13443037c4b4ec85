"""The exact solver. It knows nothing of fairness: only rows, a linear goal and linear bounds."""
