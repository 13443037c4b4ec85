"""What can be said of new data: intervals, exact tests, and the guarantee."""
