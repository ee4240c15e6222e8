"""The command line: one thin module a command; `main` wires them."""
