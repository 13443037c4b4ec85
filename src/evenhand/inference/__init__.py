"""Statistical inference about new data: intervals, exact tests, and the guarantee."""
