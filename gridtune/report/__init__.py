"""Tables and figures of what a sweep found."""
