"""The exact solver. It knows nothing of fairness: only rows, a linear objective and linear bounds."""
