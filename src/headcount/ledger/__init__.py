"""A durable record of the budget spent on each dataset. It enforces the limit of each dataset."""
