"""P(S, Y | x): the probability of each group and label given the features, learned and calibrated."""
