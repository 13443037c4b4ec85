"""What a model file from elsewhere may hold: types, parameters, and numbers that compiled code trusts."""
