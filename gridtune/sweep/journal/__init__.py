"""The journal of a sweep, and the table of results that is made of it."""
