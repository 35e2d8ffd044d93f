"""Other implementations of EASY that gridtune is measured against; each is checked to do the same work."""
