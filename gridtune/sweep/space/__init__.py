"""Search spaces: read, checked, and planned into configurations and cells."""
