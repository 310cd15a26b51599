"""The numbers of the guide, a page on which people learn differential privacy by doing it.

Each part of the guide has one or more files here, which compute the numbers of this part with the
library. The prose and the widgets are in `browser/guide`.
"""
