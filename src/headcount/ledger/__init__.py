"""A durable record of the budget that was spent on each dataset. It enforces each limit."""
