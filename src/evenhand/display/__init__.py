"""Output besides the HTML report: text, notebook tables and progress bars."""
