"""A durable record of the budget that was spent on each data set. It enforces the limits."""
