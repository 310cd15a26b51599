"""Several questions to the same people, with one budget for everything that a person says."""
