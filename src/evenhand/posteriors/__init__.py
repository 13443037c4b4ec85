"""P(S, Y | x): how probable each group and label is for a row, learned and calibrated."""
