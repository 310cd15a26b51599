"""The researcher's pages: plan a survey, open it, watch it, close it, and read its results."""
