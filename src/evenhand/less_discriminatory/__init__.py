"""Less discriminatory alternatives: models as good as the incumbent, with less disparity."""
