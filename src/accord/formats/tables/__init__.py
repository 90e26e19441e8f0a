"""Tables: the roles of their columns and the scales of their values, decided once for every reader."""
