"""GPU placement: which node and which GPU a pod gets, so that GPUs are not stranded."""
