"""Running cells: in this process or in workers on Ray, with blocks, deaths, progress and status."""
