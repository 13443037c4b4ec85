"""Who belongs to which group: sensitive features, groups, strata, proxies."""
