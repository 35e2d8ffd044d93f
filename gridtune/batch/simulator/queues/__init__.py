"""The waiting jobs, compiled: lists, an index and tournaments, under orders that stand still or change."""
