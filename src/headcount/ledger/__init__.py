"""What was spent on which data set: a durable record that refuses what would exceed a limit."""
