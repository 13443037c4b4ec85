"""Any table or array, read into validated arrays."""
