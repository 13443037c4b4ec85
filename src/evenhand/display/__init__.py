"""What people see besides the page: text, notebook tables and progress bars."""
