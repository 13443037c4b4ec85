"""Statistical inference about new data: intervals, tests of binomial counts, and the guarantee."""
