"""The report of a sweep as one HTML page that needs nothing else to be viewed."""
