"""What gridtune costs, measured beside others on the same input in the same run."""
