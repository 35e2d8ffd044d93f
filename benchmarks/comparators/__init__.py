"""Other implementations of EASY that gridtune is compared with; each is checked to do the same work."""
